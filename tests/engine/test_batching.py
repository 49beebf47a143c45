"""The way of batching is found out once a model, and again when anything that decides it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.engine import batching
from stoker.engine.ragged import Mode, RaggedModel
from stoker.engine.ragged_attention import hook_attention

from .model_families import FAMILIES, build

hook_attention()


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every model that was probed."""
    probed: list[object] = []
    probe = RaggedModel.probe

    def noted(model: object) -> RaggedModel:
        probed.append(model)
        return probe(model)

    monkeypatch.setattr(RaggedModel, "probe", noted)
    return probed


@pytest.fixture(scope="module")
def model() -> object:
    return build(next(family for family in FAMILIES if family.name == "plain"))


def test_a_model_is_probed_once(model: object, probes: list[object], tmp_path: Path) -> None:
    file = tmp_path / "kv" / "default.batching"
    for _ in range(3):
        assert batching.ragged(model, "a model", file).mode is Mode.PACKED
    assert len(probes) == 1


def test_another_model_is_probed_anew(model: object, probes: list[object], tmp_path: Path) -> None:
    for fingerprint in ("one", "another", "another"):
        batching.ragged(model, fingerprint, tmp_path / "batching")
    assert len(probes) == 2


def test_another_version_is_probed_anew(
    model: object, probes: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batching.ragged(model, "a model", tmp_path / "batching")
    monkeypatch.setattr("mlx_lm.__version__", "99")
    batching.ragged(model, "a model", tmp_path / "batching")
    assert len(probes) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"key": [], "mode": "packed"}', b"\xff"])
def test_a_damaged_file_is_as_good_as_none(model: object, probes: list[object], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "batching").write_bytes(content)
    assert batching.ragged(model, "a model", tmp_path / "batching").mode is Mode.PACKED
    assert len(probes) == 1


def test_a_disk_that_cannot_be_written_is_no_trouble(model: object, probes: list[object], tmp_path: Path) -> None:
    (tmp_path / "kv").write_text("a file where a folder should be")
    assert batching.ragged(model, "a model", tmp_path / "kv" / "batching").mode is Mode.PACKED


def test_a_mode_that_there_is_no_more_is_probed_anew(model: object, probes: list[object], tmp_path: Path) -> None:
    file = tmp_path / "batching"
    batching.ragged(model, "a model", file)
    file.write_text(file.read_text().replace('"packed"', '"sideways"'))
    assert batching.ragged(model, "a model", file).mode is Mode.PACKED
    assert len(probes) == 2
