"""Converting a model to another precision: what it takes is told beforehand, mlx-lm does it in a child process.

No MLX here. `convert` fills a folder that the caller renames when it is whole.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from .errors import ModelError
from .model_files import Tensor, read_json, tensors, weight_files
from .progress import Progress
from .pull import require_space, watched

Bits = Literal["4", "8", "mixed"]
GroupSize = Literal["32", "64", "128"]
DType = Literal["float32", "bfloat16", "float16"]

_ITEM_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "float32": 4, "bfloat16": 2, "float16": 2}
# The recipe that `mixed` stands for keeps the layers that suffer most at 6 bits, the others at 4.
_MOST_BITS = {"4": 4, "8": 8, "mixed": 6}
_GROUP_SIZES = (128, 64, 32)
_OTHER_FILES_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Precision:
    """What to convert to: quantized to `bits` (None: not), everything else in `dtype` (None: as the model has it)."""

    bits: Bits | None = None
    group_size: GroupSize = "64"
    dtype: DType | None = None

    def __post_init__(self) -> None:
        if self.bits is None and self.dtype is None:
            raise ModelError("say what to convert to: `--bits 4`, `8` or `mixed`, or `--dtype`, or both")

    def __str__(self) -> str:
        """As in the name of a converted model."""
        if self.bits is None:
            return str(self.dtype)
        return "mixed" if self.bits == "mixed" else f"{self.bits}bit"


def convert(source: Path, staging: Path, precision: Precision, progress: Progress) -> None:
    """Fill `staging` with the checked model in `source` at another precision. Raises `ModelError`."""
    _refuse_impossible(source, precision)
    size = _bytes_after(source, precision)
    # A conversion that was cut short starts over.
    shutil.rmtree(staging, ignore_errors=True)
    require_space(staging.parent, size + _OTHER_FILES_BYTES, f"{source.name} as {precision}")
    command = [sys.executable, "-m", f"{__package__}.quantize", str(source), str(staging)]
    with watched(staging, f"converting {source.name} to {precision}", size, progress):
        done = subprocess.run(
            [*command, json.dumps(asdict(precision))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise ModelError(
            f"cannot convert {source} to {precision} (exit code {done.returncode}): {lines[-1]}. "
            "Try another precision, or fetch a model that is converted already"
        )


def _refuse_impossible(source: Path, precision: Precision) -> None:
    if precision.bits is None:
        return
    config = read_json(source, "config.json")
    if _quantized_bits(config) is not None or config.get("quantization_config"):
        raise ModelError(
            f"{source} is quantized already, and quantizing twice costs quality twice; convert the original model, "
            "or undo its quantization with `--dtype` alone"
        )
    hidden = {**config, **(config.get("text_config") or {})}.get("hidden_size")
    if isinstance(hidden, int) and hidden % int(precision.group_size):
        fitting = [size for size in _GROUP_SIZES if hidden % size == 0]
        way_out = f"use `--group-size {fitting[0]}`" if fitting else "convert it with `--dtype` alone"
        raise ModelError(
            f"{source} cannot be quantized in groups of {precision.group_size}: its hidden size of {hidden} "
            f"is not a multiple of that; {way_out}"
        )


def _bytes_after(source: Path, precision: Precision) -> int:
    """About the size of the converted weights, from the headers of the ones there are; rather too much."""
    config = read_json(source, "config.json")
    packed = 32 // (_quantized_bits(config) or 32)
    return sum(
        _tensor_bytes_after(tensor, precision, packed) for file in weight_files(source) for tensor in tensors(file)
    )


def _tensor_bytes_after(tensor: Tensor, precision: Precision, packed: int) -> int:
    item = _ITEM_BYTES.get(precision.dtype or tensor.dtype, 4)
    if precision.bits is None or len(tensor.shape) < 2:
        return tensor.size * item * (packed if tensor.dtype == "U32" else 1)
    # A scale and a bias for each group of weights.
    bits = _MOST_BITS[precision.bits] + 2 * 8 * item / int(precision.group_size)
    return round(tensor.size * bits / 8)


def _quantized_bits(config: dict[str, object]) -> int | None:
    settings = config.get("quantization")
    bits = settings.get("bits") if isinstance(settings, dict) else None
    return bits if isinstance(bits, int) and bits > 0 else None
