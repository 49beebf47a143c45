"""Runs the service as its own module does, and when it has ended writes down what MLX was used for.

Arguments: the file to write, then those of the service.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stoker.service.__main__ import main

report, *argv = sys.argv[1:]
exit_code = main(argv)
imported = "mlx.core" in sys.modules
import mlx.core as mx  # noqa: E402 - only now, to see whether the service did

Path(report).write_text(json.dumps({"imported": imported, "peak_bytes": mx.get_peak_memory()}))
sys.exit(exit_code)
