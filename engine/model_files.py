"""The files of a model folder, read without loading a model: its JSON, and what its weights' headers say.

Whatever is wrong with one is a `ModelError` that names it and the way out.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ModelError

_HEADER_LENGTH = struct.Struct("<Q")
# The format's own bound; a file of another kind would name some enormous number there.
_MAX_HEADER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a weight file; `dtype` is the format's name for it, such as F32, BF16 or U32."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of the model's."""
    try:
        value = json.loads((folder / name).read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{folder} has no {name}; give the folder that holds it and the weights") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {folder / name}: {error}; {fetch_again(folder)}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{folder / name} does not hold a JSON object; {fetch_again(folder)}")
    return value


def weight_files(folder: Path) -> list[Path]:
    """The files that mlx-lm would load; every shard that the index names must be among them."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(
            f"{folder} has no weights that MLX reads (model*.safetensors); "
            "use a model that has them, or save this one as safetensors"
        )
    if (folder / "model.safetensors.index.json").exists():
        shards = read_json(folder, "model.safetensors.index.json").get("weight_map")
        named = set(shards.values()) if isinstance(shards, dict) else set()
        missing = sorted(named - {file.name for file in files})
        if missing:
            raise ModelError(f"{folder} lacks the weights {', '.join(missing)}; {fetch_again(folder)}")
    return files


def tensors(file: Path) -> list[Tensor]:
    """What is in a weight file, which is as long as its header says.

    The format: https://github.com/huggingface/safetensors#format
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            (length,) = _HEADER_LENGTH.unpack(stream.read(_HEADER_LENGTH.size))
            if length > _MAX_HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        data = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        found = [Tensor(name, str(entry["dtype"]), tuple(entry["shape"])) for name, entry in header.items()]
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"the weights {file} cannot be read ({error}); {fetch_again(file.parent)}") from error
    expected = _HEADER_LENGTH.size + length + data
    if size < expected:
        raise ModelError(f"the weights {file} are cut off at {size} of {expected} bytes; {fetch_again(file.parent)}")
    return found


def fetch_again(folder: Path) -> str:
    """The way out when a file is damaged."""
    return f"move {folder} away and fetch the model again"
