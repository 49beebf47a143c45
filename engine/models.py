"""Models on disk: fetch one when it is missing, and say what is wrong with one before an engine trips over it.

No MLX here: this runs in the process of the command line and the watchdog. Everything that can be told from a model's
files without loading them is checked; each problem is a `ModelError` that names the thing and the way out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import conversion
from .architectures import has_code_for
from .conversion import Precision
from .errors import ModelError
from .model_files import fetch_again, read_json, tensors, weight_files
from .progress import Progress
from .pull import pull_demo, pull_from_hub

DEMO = "demo"
DEMO_NAME = "smollm2-135m-instruct"

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "*.tiktoken", "vocab.json")


@dataclass(frozen=True)
class ModelInfo:
    """What a model's files say about it. `name` is the hub's where it came from there; `bytes` counts the weights."""

    name: str
    path: Path
    architecture: str
    context_tokens: int | None
    bytes: int
    quantization: str | None


def ensure(model: str, folder: Path, progress: Progress) -> Path:
    """The checked folder of `model`, fetched into `folder` if it is not there yet.

    `model` is `demo`, the path of a model folder, the name of one in `folder`, or a hub name. Raises `ModelError`.
    """
    there = present(model, folder)
    if there is not None:
        return check(there).path
    if not pullable(model):
        raise ModelError(
            f"{model!r} is neither `demo`, nor a folder here, nor a model in {folder}, "
            "nor a hub name such as `org/name`"
        )
    target = _folder_of(model, folder)
    _install(target, progress, lambda staging: _pull(model, staging, progress))
    return check(target).path


def present(model: str, folder: Path) -> Path | None:
    """The folder, unchecked, that `ensure` would serve without fetching anything; None when it would have to."""
    return _local_folder(model) or _installed_folder(model, folder)


def pullable(model: str) -> bool:
    """Whether `ensure` could fetch it: it names no folder of one's own."""
    return _local_folder(model) is None and (model == DEMO or _HUB_NAME.fullmatch(model) is not None)


def convert(source: str, folder: Path, precision: Precision, name: str | None, progress: Progress) -> ModelInfo:
    """Make the model `name` in `folder`: `source` at another precision. Raises `ModelError`.

    `source` is what `ensure` takes; without a `name`, the new model has the old one's and the precision.
    """
    original = ensure(source, folder, progress)
    name = name or f"{original.name}-{precision}"
    if not _NAME.fullmatch(name) or name == DEMO:
        raise ModelError(f"a model cannot be called {name!r}; give another `--name`, such as `my-model-4bit`")
    target = _folder_of(name, folder)
    if target.exists():
        raise ModelError(
            f"there is a model {name} already; give another `--name`, or remove it with `stoker models remove {name}`"
        )
    _install(target, progress, lambda staging: conversion.convert(original, staging, precision, progress))
    return check(target)


def remove(name: str, folder: Path) -> None:
    """Remove the model `name`, usable or not, from `folder`. Raises `ModelError`."""
    target = located(name, folder)
    # Renamed first, so that a removal that is cut short leaves no model that looks whole.
    gone = folder / f".removed-{target.name}"
    try:
        shutil.rmtree(gone, ignore_errors=True)
        target.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise ModelError(f"cannot remove {target}: {error}; mend that and run the same command again") from error


def located(name: str, folder: Path) -> Path:
    """The folder of the model `name` in `folder`, usable or not. Raises `ModelError`."""
    target = _installed_folder(name, folder)
    if target is None:
        raise ModelError(f"there is no model {name} in {folder}; `stoker models list` shows those there are")
    return target


def model_name(model: str) -> str:
    """The name that clients of the API see."""
    if model == DEMO:
        return DEMO_NAME
    local = _local_folder(model)
    return model if local is None else local.name


def installed(folder: Path) -> list[ModelInfo]:
    """Every usable model in `folder`."""
    models = []
    for path in sorted(folder.glob("[!.]*/")):
        with contextlib.suppress(ModelError):
            models.append(check(path))
    return models


def check(folder: Path) -> ModelInfo:
    """What is in a model folder. Raises `ModelError` for anything that would keep an engine from loading it."""
    if not folder.is_dir():
        raise ModelError(f"there is no model folder {folder}; give an existing one, `demo` or a hub name")
    config = read_json(folder, "config.json")
    architecture = _supported_architecture(folder, config)
    weights = weight_files(folder)
    for file in weights:
        tensors(file)
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZERS):
        raise ModelError(f"{folder} has no tokenizer (tokenizer.json); {fetch_again(folder)}")
    return ModelInfo(
        name=folder.name.replace("--", "/", 1),
        path=folder,
        architecture=architecture,
        context_tokens=_context_tokens(config),
        bytes=sum(file.stat().st_size for file in weights),
        quantization=_quantization(config),
    )


def _local_folder(model: str) -> Path | None:
    """The path that `model` means, or None when it is a name. An existing folder wins over a hub name, as in mlx-lm."""
    path = Path(model).expanduser()
    looks_like_path = model.startswith(("/", "./", "../", "~")) or model in {".", ".."}
    if model not in {DEMO, ""} and (looks_like_path or path.is_dir()):
        return path.absolute()
    return None


def check_draft(target: Path, draft: Path) -> None:
    """Whether a draft model means the same text by each token id as its target. Raises `ModelError`."""
    of_target, of_draft = _vocabulary(target), _vocabulary(draft)
    if of_target == of_draft:
        return
    odd = sorted(text for text, _ in of_target.items() ^ of_draft.items())
    raise ModelError(
        f"{draft} cannot draft for {target}: {len(odd)} of their tokens differ, such as {odd[0]!r}; "
        "use a draft model with the same tokenizer, usually a smaller one of the same family, or none"
    )


def _vocabulary(folder: Path) -> dict[str, int]:
    """Each token's text and id."""
    tokenizer = read_json(folder, "tokenizer.json")
    vocabulary = tokenizer.get("model", {}).get("vocab", {})
    pairs = (
        vocabulary.items() if isinstance(vocabulary, dict) else ((entry[0], i) for i, entry in enumerate(vocabulary))
    )
    return dict(pairs) | {token["content"]: token["id"] for token in tokenizer.get("added_tokens", [])}


def _folder_of(name: str, folder: Path) -> Path:
    return folder / name.replace("/", "--")


def _installed_folder(name: str, folder: Path) -> Path | None:
    """Where the model `name` is in `folder`, or None when it is not there."""
    target = _folder_of(name, folder)
    return target if _NAME.fullmatch(name) and target.is_dir() else None


def _pull(model: str, staging: Path, progress: Progress) -> None:
    if model == DEMO:
        pull_demo(staging, progress)
    else:
        pull_from_hub(model, staging, progress)


def _install(target: Path, progress: Progress, fill: Callable[[Path], None]) -> None:
    """Fill a staging folder, check it, and only then let it appear as `target`."""
    downloads = target.parent / ".downloads"
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        with _only_one(downloads / "lock", progress):
            if target.exists():
                return
            staging = downloads / target.name
            fill(staging)
            check(staging)
            # The rename must not reach the disk before the files do: a power cut would leave a folder of empty ones.
            os.sync()
            staging.rename(target)
    except OSError as error:
        raise ModelError(
            f"cannot put {target.name} into {target.parent}: {error}; mend that, or set STOKER_HOME to another folder"
        ) from error


@contextlib.contextmanager
def _only_one(lock: Path, progress: Progress) -> Iterator[None]:
    """Hold `lock` for the body, so that what lies in the downloads folder belongs to nobody who is alive."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.start("waiting for another stoker that is fetching or converting a model", None)
            fcntl.flock(file, fcntl.LOCK_EX)
            progress.done()
        yield


def _supported_architecture(folder: Path, config: dict[str, Any]) -> str:
    """The model type, once it is sure that mlx-lm has code for it."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise ModelError(f"{folder / 'config.json'} names no `model_type`; {fetch_again(folder)}")
    if "model_file" in config:
        raise ModelError(
            f"{folder} brings its own code ({config['model_file']}), which is not run; "
            "use a model whose architecture mlx-lm knows"
        )
    if not has_code_for(model_type, config.get("architectures")):
        raise ModelError(
            f"{folder} is of the type `{model_type}`, which the installed mlx-lm does not know; "
            "use another model, or a newer Stoker"
        )
    return model_type


def _context_tokens(config: dict[str, Any]) -> int | None:
    """The window in tokens; a model that also sees images keeps its text settings in a table of their own."""
    text = config.get("text_config")
    for table in (config, text if isinstance(text, dict) else {}):
        for key in ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"):
            if isinstance(table.get(key), int):
                return int(table[key])
    return None


def _quantization(config: dict[str, Any]) -> str | None:
    settings = config.get("quantization") or config.get("quantization_config")
    if not isinstance(settings, dict):
        return None
    # Beside the bits of all layers, a mixed one has a table for each layer.
    tables = [settings, *(layer for layer in settings.values() if isinstance(layer, dict))]
    bits = sorted({table["bits"] for table in tables if isinstance(table.get("bits"), int)})
    return f"{'/'.join(map(str, bits))}-bit" if bits else str(settings.get("quant_method", "quantized"))
