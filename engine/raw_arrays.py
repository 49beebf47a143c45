"""MLX arrays as bytes for files, and back."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from .block_files import RawArray

_DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16, "U32": mx.uint32, "I32": mx.int32}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_PLAIN = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U32": np.uint32, "I32": np.int32}
"""NumPy has no bfloat16, and here only the bytes matter."""


def code_of(array: mx.array) -> str:
    """The data type as safetensors calls it."""
    return _CODES[array.dtype]


def plain(array: mx.array) -> np.ndarray:
    """The array's bytes in memory that is not MLX's."""
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)


def raw(array: mx.array) -> RawArray:
    return raw_plain(code_of(array), plain(array))


def raw_plain(code: str, array: np.ndarray) -> RawArray:
    whole = np.ascontiguousarray(array)
    return RawArray(code, array.shape, whole.data)


def array_of(raw: RawArray) -> mx.array:
    array = mx.array(np.frombuffer(raw.data, dtype=_PLAIN[raw.dtype]).reshape(raw.shape))
    return array.view(mx.bfloat16) if raw.dtype == "BF16" else array
