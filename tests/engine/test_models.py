"""Model folders: what is in one, what is wrong with one, and how a missing one gets there."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.engine import models
from stoker.engine.errors import ModelError
from tests.engine.recorded_progress import RecordedProgress
from tests.tiny_models import make_tiny_llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_llama(tmp_path / "tiny", layers=1)


@pytest.fixture
def progress() -> RecordedProgress:
    return RecordedProgress()


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def fail_if_fetched(*_: object) -> None:
    raise AssertionError("nothing is to be fetched")


def test_a_good_folder_says_what_is_in_it(folder: Path) -> None:
    info = models.check(folder)
    assert info == models.ModelInfo(
        name="tiny",
        path=folder,
        architecture="llama",
        context_tokens=4096,
        bytes=(folder / "model.safetensors").stat().st_size,
        quantization=None,
    )


def test_quantization_and_the_window_are_found_where_models_keep_them(folder: Path) -> None:
    change_config(
        folder,
        max_position_embeddings=None,
        text_config={"max_position_embeddings": 512},
        quantization={"bits": 4, "group_size": 64},
    )
    info = models.check(folder)
    assert (info.context_tokens, info.quantization) == (512, "4-bit")


def test_an_alias_of_mlx_lm_is_a_supported_architecture(folder: Path) -> None:
    change_config(folder, model_type="mistral", architectures=["MistralForCausalLM"])
    assert models.check(folder).architecture == "mistral"


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def with_text(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def truncated(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def dangling(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "absent")


def with_config(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: change_config(folder, **changes)


INDEX = json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(without("config.json"), "has no config.json", id="no config"),
        pytest.param(with_text("config.json", '{"model_type": '), "cannot read", id="broken config"),
        pytest.param(with_text("config.json", "[]"), "does not hold a JSON object", id="config of another shape"),
        pytest.param(with_config(model_type=None), "names no `model_type`", id="no model type"),
        pytest.param(with_config(model_type="nosuch"), "type `nosuch`, which the installed mlx-lm", id="unknown type"),
        pytest.param(with_config(model_file="model.py"), "brings its own code \\(model.py\\)", id="own code"),
        pytest.param(without("model.safetensors"), "has no weights that MLX reads", id="no weights"),
        pytest.param(
            with_text("model.safetensors.index.json", INDEX),
            "lacks the weights model-00002-of-00002.safetensors",
            id="missing shard",
        ),
        pytest.param(truncated, "are cut off at \\d+ of \\d+ bytes", id="truncated weights"),
        pytest.param(with_text("model.safetensors", "x"), "cannot be read", id="weights of three bytes"),
        pytest.param(
            with_text("model.safetensors", "not a safetensors file"), "a header of \\d+ bytes", id="other weights"
        ),
        pytest.param(dangling, "cannot be read .*No such file", id="weights linked to nowhere"),
        pytest.param(without("tokenizer.json"), "has no tokenizer", id="no tokenizer"),
    ],
)
def test_a_damaged_folder_is_refused_with_the_damage_and_the_way_out(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=message) as raised:
        models.check(folder)
    assert str(folder) in str(raised.value)
    assert ";" in str(raised.value)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no model folder .*/absent"):
        models.check(tmp_path / "absent")


def test_a_path_is_used_where_it_is(folder: Path, tmp_path: Path, progress: RecordedProgress) -> None:
    assert models.ensure(str(folder), tmp_path / "models", progress) == folder
    assert not (tmp_path / "models").exists()


def test_a_relative_folder_wins_over_a_hub_name(
    folder: Path, tmp_path: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org").mkdir()
    folder.rename(tmp_path / "org" / "tiny")
    monkeypatch.chdir(tmp_path)
    assert models.ensure("org/tiny", tmp_path / "models", progress) == tmp_path / "org" / "tiny"


@pytest.mark.parametrize("model", ["nosuch", "a b/c", "org/name/more", ""])
def test_what_can_be_no_model_is_refused(model: str, tmp_path: Path, progress: RecordedProgress) -> None:
    with pytest.raises(ModelError, match=r"is neither `demo`, nor a folder here, nor a model in .*, nor a hub name"):
        models.ensure(model, tmp_path, progress)


def test_a_model_that_is_there_is_found_by_its_name(tmp_path: Path, progress: RecordedProgress) -> None:
    made = make_tiny_llama(tmp_path / "my-model-4bit", layers=1)
    assert models.ensure("my-model-4bit", tmp_path, progress) == made


def test_layers_of_different_bits_are_told(folder: Path) -> None:
    change_config(folder, quantization={"bits": 4, "group_size": 64, "lm_head": {"bits": 6}, "embed": False})
    assert models.check(folder).quantization == "4/6-bit"


def test_a_model_that_is_there_is_not_fetched(
    tmp_path: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "pull_demo", fail_if_fetched)
    monkeypatch.setattr(models, "pull_from_hub", fail_if_fetched)
    make_tiny_llama(tmp_path / "demo", layers=1)
    make_tiny_llama(tmp_path / "org--tiny", layers=1)
    assert models.ensure("demo", tmp_path, progress) == tmp_path / "demo"
    assert models.ensure("org/tiny", tmp_path, progress) == tmp_path / "org--tiny"


def test_a_fetched_model_appears_only_when_it_is_whole(
    tmp_path: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(staging: Path, _: object) -> None:
        make_tiny_llama(staging, layers=1)
        assert not (tmp_path / "demo").exists()

    monkeypatch.setattr(models, "pull_demo", pull)
    assert models.check(models.ensure("demo", tmp_path, progress)).architecture == "llama"
    assert [path.name for path in (tmp_path / ".downloads").iterdir()] == ["lock"]


def test_a_fetched_model_that_is_damaged_never_appears(
    tmp_path: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(_: str, staging: Path, __: object) -> None:
        truncated(make_tiny_llama(staging, layers=1))

    monkeypatch.setattr(models, "pull_from_hub", pull)
    with pytest.raises(ModelError, match="cut off"):
        models.ensure("org/tiny", tmp_path, progress)
    assert not (tmp_path / "org--tiny").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, progress: RecordedProgress) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ModelError, match=r"cannot put demo into .*/models: .*set STOKER_HOME"):
        models.ensure("demo", tmp_path / "models", progress)


def test_a_second_fetch_waits_for_the_first_and_takes_its_model(
    tmp_path: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "pull_demo", fail_if_fetched)
    (tmp_path / ".downloads").mkdir()
    found: list[Path] = []
    with (tmp_path / ".downloads" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: found.append(models.ensure("demo", tmp_path, progress)))
        second.start()
        assert progress.started.wait(20)
        make_tiny_llama(tmp_path / "demo", layers=1)
    second.join(20)
    assert found == [tmp_path / "demo"]
    assert progress.descriptions == ["waiting for another stoker that is fetching or converting a model"]


def test_installed_models_are_listed_under_the_names_that_fetch_them(tmp_path: Path) -> None:
    make_tiny_llama(tmp_path / "org--tiny", layers=1)
    make_tiny_llama(tmp_path / "demo", layers=1)
    make_tiny_llama(tmp_path / ".downloads" / "half", layers=1)
    truncated(make_tiny_llama(tmp_path / "broken", layers=1))
    assert [info.name for info in models.installed(tmp_path)] == ["demo", "org/tiny"]


def test_no_models_folder_means_no_models(tmp_path: Path) -> None:
    assert models.installed(tmp_path / "absent") == []


def test_clients_see_a_short_name(folder: Path) -> None:
    assert models.model_name("demo") == "smollm2-135m-instruct"
    assert models.model_name(str(folder)) == "tiny"
    assert models.model_name("mlx-community/Qwen3-8B-4bit") == "mlx-community/Qwen3-8B-4bit"
