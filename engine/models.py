"""Models on disk: fetch one when it is missing, and say what is wrong with one before an engine trips over it.

No MLX here: this runs in the process of the command line and the watchdog. Everything that can be told from a model's
files without loading them is checked; each problem is a `ModelError` that names the thing and the way out.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .architectures import has_code_for
from .errors import ModelError
from .progress import Progress
from .pull import pull_demo, pull_from_hub

DEMO = "demo"
DEMO_NAME = "smollm2-135m-instruct"

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "*.tiktoken", "vocab.json")
_HEADER_LENGTH = struct.Struct("<Q")
# The format's own bound; a file of another kind would name some enormous number there.
_MAX_HEADER_BYTES = 100_000_000


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

    `model` is `demo`, the path of a model folder, or a hub name. Raises `ModelError`.
    """
    local = _local_folder(model)
    if local is not None:
        return check(local).path
    if model != DEMO and not _HUB_NAME.fullmatch(model):
        raise ModelError(f"{model!r} is neither `demo`, nor a folder here, nor a hub name such as `org/name`")
    target = folder / model.replace("/", "--")
    if not target.exists():
        try:
            _fetch(model, target, progress)
        except OSError as error:
            raise ModelError(
                f"cannot put {model} into {folder}: {error}; mend that, or set STOKER_HOME to another folder"
            ) from error
    return check(target).path


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
    config = _read_json(folder, "config.json")
    architecture = _supported_architecture(folder, config)
    weights = _weight_files(folder)
    for file in weights:
        _check_safetensors(file)
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZERS):
        raise ModelError(f"{folder} has no tokenizer (tokenizer.json); {_fetch_again(folder)}")
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


def _fetch(model: str, target: Path, progress: Progress) -> None:
    """Fill a staging folder, check it, and only then let it appear as `target`."""
    downloads = target.parent / ".downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    with _only_one(downloads / "lock", progress):
        if target.exists():
            return
        staging = downloads / target.name
        if model == DEMO:
            pull_demo(staging, progress)
        else:
            pull_from_hub(model, staging, progress)
        check(staging)
        # The rename must not reach the disk before the files do: a power cut would leave a folder of empty ones.
        os.sync()
        staging.rename(target)


@contextlib.contextmanager
def _only_one(lock: Path, progress: Progress) -> Iterator[None]:
    """Hold `lock` for the body, so that what lies in the downloads folder belongs to nobody who is alive."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.start("waiting for another stoker that is fetching a model", None)
            fcntl.flock(file, fcntl.LOCK_EX)
            progress.done()
        yield


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        value = json.loads((folder / name).read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{folder} has no {name}; give the folder that holds it and the weights") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {folder / name}: {error}; {_fetch_again(folder)}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{folder / name} does not hold a JSON object; {_fetch_again(folder)}")
    return value


def _weight_files(folder: Path) -> list[Path]:
    """The files that mlx-lm would load; every shard that the index names must be among them."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(
            f"{folder} has no weights that MLX reads (model*.safetensors); "
            "use an MLX model, or convert this one with `mlx_lm.convert`"
        )
    if (folder / "model.safetensors.index.json").exists():
        shards = _read_json(folder, "model.safetensors.index.json").get("weight_map")
        named = set(shards.values()) if isinstance(shards, dict) else set()
        missing = sorted(named - {file.name for file in files})
        if missing:
            raise ModelError(f"{folder} lacks the weights {', '.join(missing)}; {_fetch_again(folder)}")
    return files


def _check_safetensors(file: Path) -> None:
    """A file's header says how long its data is (https://github.com/huggingface/safetensors#format)."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            (length,) = _HEADER_LENGTH.unpack(stream.read(_HEADER_LENGTH.size))
            if length > _MAX_HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(stream.read(length))
        data = max((entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"), default=0)
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"the weights {file} cannot be read ({error}); {_fetch_again(file.parent)}") from error
    expected = _HEADER_LENGTH.size + length + data
    if size < expected:
        raise ModelError(f"the weights {file} are cut off at {size} of {expected} bytes; {_fetch_again(file.parent)}")


def _supported_architecture(folder: Path, config: dict[str, Any]) -> str:
    """The model type, once it is sure that mlx-lm has code for it."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise ModelError(f"{folder / 'config.json'} names no `model_type`; {_fetch_again(folder)}")
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
    bits = settings.get("bits")
    return f"{bits}-bit" if bits else str(settings.get("quant_method", "quantized"))


def _fetch_again(folder: Path) -> str:
    return f"move {folder} away and fetch the model again"
