"""The child process that converts a model with mlx-lm: `python -m stoker.engine.quantize SOURCE FOLDER PRECISION`.

`PRECISION` is `conversion.Precision` as JSON, and `FOLDER` must not exist. When it fails, the last line of standard
error says why.
"""

from __future__ import annotations

import json
import sys

from mlx_lm.convert import convert

from .conversion import Precision

MIXED = "mixed_4_6"
"""The recipe of mlx-lm that is closest to the common 4-bit mixtures: attention values and some layers at 6 bits."""


def main() -> None:
    source, folder, precision_json = sys.argv[1:]
    precision = Precision(**json.loads(precision_json))
    mixed = precision.bits == "mixed"
    convert(
        source,
        folder,
        quantize=precision.bits is not None,
        q_bits=None if precision.bits is None or mixed else int(precision.bits),
        q_group_size=int(precision.group_size),
        quant_predicate=MIXED if mixed else None,
        dtype=precision.dtype,
        # Does nothing to layers that are not quantized.
        dequantize=precision.bits is None,
    )


if __name__ == "__main__":
    main()
