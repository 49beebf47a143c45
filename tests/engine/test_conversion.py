"""A converted model is a whole model of its own, and what cannot become one is refused before anything is written."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from stoker.engine import models
from stoker.engine.conversion import Precision
from stoker.engine.errors import ModelError
from tests.engine.recorded_progress import RecordedProgress
from tests.tiny_models import make_tiny_llama

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_tiny_llama(tmp_path / "tiny", hidden=128)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def progress() -> RecordedProgress:
    return RecordedProgress()


def first_logits(model_folder: Path) -> mx.array:
    model, _ = mlx_lm.load(str(model_folder))
    logits: mx.array = model(mx.array([list(b"The capital")]))[0].astype(mx.float32)
    return logits


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("precision", "quantization", "nearness"),
    [
        (Precision(bits="8"), "8-bit", 0.05),
        (Precision(bits="4", group_size="32"), "4-bit", 0.5),
        (Precision(bits="mixed", dtype="bfloat16"), "4/6-bit", 0.5),
        (Precision(dtype="bfloat16"), None, 0.05),
    ],
    ids=str,
)
def test_a_converted_model_says_nearly_the_same_in_less_space(
    source: Path, folder: Path, precision: Precision, quantization: str | None, nearness: float
) -> None:
    made = models.convert(str(source), folder, precision, None, RecordedProgress())
    assert (made.path, made.quantization) == (folder / f"tiny-{precision}", quantization)
    assert made.bytes < 0.55 * models.check(source).bytes
    assert models.installed(folder) == [made]
    expected = first_logits(source)
    assert mx.mean(mx.abs(first_logits(made.path) - expected)) < nearness * mx.std(expected)


def test_a_precision_is_named_as_models_are() -> None:
    named = [Precision(bits="4"), Precision(bits="mixed", dtype="float16"), Precision(dtype="float16")]
    assert [str(precision) for precision in named] == ["4bit", "mixed", "float16"]


def test_a_quantization_can_be_undone(source: Path, folder: Path, progress: RecordedProgress) -> None:
    quantized = models.convert(str(source), folder, Precision(bits="8"), "small", progress)
    made = models.convert("small", folder, Precision(dtype="float32"), None, progress)
    assert made.quantization is None
    assert mx.allclose(first_logits(made.path), first_logits(quantized.path), atol=1e-3)


@pytest.mark.parametrize(
    "precision", [Precision(bits="4"), Precision(bits="8", dtype="bfloat16"), Precision(dtype="float16")]
)
def test_the_size_is_known_beforehand(
    source: Path, folder: Path, progress: RecordedProgress, precision: Precision
) -> None:
    made = models.convert(str(source), folder, precision, None, progress)
    assert progress.descriptions == [f"converting tiny to {precision}"]
    assert progress.totals == [pytest.approx(made.bytes, rel=0.1)]
    assert not progress.running


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(
    source: Path, folder: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    with pytest.raises(ModelError, match=r"tiny as 4bit needs \d+ bytes .* and 1000 are free"):
        models.convert(str(source), folder, Precision(bits="4"), None, progress)
    assert models.installed(folder) == []
    assert progress.descriptions == []


def refused(source: Path, folder: Path, precision: Precision, name: str | None = None) -> str:
    progress = RecordedProgress()
    with pytest.raises(ModelError) as told:
        models.convert(str(source), folder, precision, name, progress)
    assert progress.descriptions == []
    return str(told.value)


def test_groups_that_do_not_fit_the_model_are_refused_with_ones_that_do(tmp_path: Path, folder: Path) -> None:
    source = make_tiny_llama(tmp_path / "narrow", hidden=96)
    sentence = refused(source, folder, Precision(bits="4"))
    assert "its hidden size of 96 is not a multiple of that; use `--group-size 32`" in sentence
    source = make_tiny_llama(tmp_path / "odd", hidden=72)
    assert "convert it with `--dtype` alone" in refused(source, folder, Precision(bits="8"))


@pytest.mark.parametrize("key", ["quantization", "quantization_config"])
def test_a_quantized_model_is_not_quantized_again(source: Path, folder: Path, key: str) -> None:
    change_config(source, **{key: {"bits": 4, "group_size": 64}})
    assert "is quantized already" in refused(source, folder, Precision(bits="8"))


def test_a_model_that_cannot_run_is_not_converted(source: Path, folder: Path) -> None:
    change_config(source, model_type="unheard_of")
    assert "which the installed mlx-lm does not know" in refused(source, folder, Precision(bits="4"))


@pytest.mark.parametrize("name", ["demo", "../out", "a b", ".hidden", "a/b/c"])
def test_a_name_that_could_not_be_served_is_refused(source: Path, folder: Path, name: str) -> None:
    assert f"a model cannot be called {name!r}" in refused(source, folder, Precision(bits="4"), name)


def test_a_model_that_is_there_is_not_overwritten(source: Path, folder: Path) -> None:
    make_tiny_llama(folder / "org--tiny")
    sentence = refused(source, folder, Precision(bits="4"), "org/tiny")
    assert sentence.startswith("there is a model org/tiny already")


def test_neither_bits_nor_a_dtype_is_no_precision() -> None:
    with pytest.raises(ModelError, match="say what to convert to"):
        Precision()


def test_a_conversion_that_fails_gives_its_reason_and_leaves_no_model(
    source: Path, folder: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run

    def fail(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        script = "import sys, pathlib; pathlib.Path(sys.argv[2]).mkdir(); raise ValueError('no such layers')"
        return run([command[0], "-c", script, *command[3:]], **options)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(
        ModelError, match=r"cannot convert .* to mixed \(exit code 1\): ValueError: no such layers\. Try"
    ):
        models.convert(str(source), folder, Precision(bits="mixed"), None, progress)
    assert models.installed(folder) == []
    assert not progress.running
    monkeypatch.undo()
    assert models.convert(str(source), folder, Precision(bits="mixed"), None, progress).path.is_dir()


def test_a_removed_model_is_gone(source: Path, folder: Path) -> None:
    make_tiny_llama(folder / "org--tiny")
    (folder / "broken").mkdir()
    for name in ("org/tiny", "broken"):
        models.remove(name, folder)
    assert names_in(folder) == []


def test_what_an_interrupted_removal_left_goes_with_the_next_one(folder: Path) -> None:
    make_tiny_llama(folder / ".removed-tiny")
    make_tiny_llama(folder / "tiny")
    assert [model.name for model in models.installed(folder)] == ["tiny"]
    models.remove("tiny", folder)
    assert names_in(folder) == []


@pytest.mark.parametrize("name", ["absent", "", ".", "..", "../models/tiny", ".downloads"])
def test_only_a_model_of_the_folder_can_be_removed(folder: Path, name: str) -> None:
    make_tiny_llama(folder / "tiny")
    (folder / ".downloads").mkdir()
    with pytest.raises(ModelError, match="there is no model"):
        models.remove(name, folder)
    assert names_in(folder) == [".downloads", "tiny"]
