"""Names of precisions: `f32`, `bf16` and `f16` are not quantized, `8`, `4` and `mixed` are."""

from __future__ import annotations

from ...engine.conversion import Precision
from ..errors import UnknownPrecision

PRECISIONS = {
    "f32": Precision(dtype="float32"),
    "bf16": Precision(dtype="bfloat16"),
    "f16": Precision(dtype="float16"),
    "8": Precision(bits="8"),
    "4": Precision(bits="4"),
    "mixed": Precision(bits="mixed"),
}


def precisions(listed: str) -> dict[str, Precision]:
    """Those of a list with commas, in its order. Raises `UnknownPrecision`."""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    unknown = [name for name in names if name not in PRECISIONS]
    if unknown or not names:
        raise UnknownPrecision(
            f"{', '.join(unknown) or 'an empty list'} names no precision; there are {', '.join(PRECISIONS)}"
        )
    return {name: PRECISIONS[name] for name in names}
