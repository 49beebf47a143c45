"""Which way of batching is right for a model, remembered from one engine to the next.

Finding out takes several forward passes (`ragged.RaggedModel.probe`), and a restarted engine has clients that wait. The
answer depends on the model and on the code that runs it alone, so it holds for as long as those stay the same.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import mlx_lm
import structlog

from .. import __version__
from .ragged import Mode, RaggedModel

log = structlog.get_logger(__name__)


def ragged(model: object, fingerprint: str, file: Path) -> RaggedModel:
    """The model in its fastest mode that is right; `file` keeps the answer, or is passed over if that cannot be."""
    key = [fingerprint, str(mx.default_device()), version("mlx"), mlx_lm.__version__, __version__]
    known = _read(file, key)
    if known is not None:
        return RaggedModel(model, known)
    probed = RaggedModel.probe(model)
    _write(file, key, probed.mode)
    return probed


def _read(file: Path, key: list[str]) -> Mode | None:
    try:
        kept = json.loads(file.read_bytes())
        return Mode(kept["mode"]) if kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, key: list[str], mode: Mode) -> None:
    draft = file.with_name(f".{file.name}.draft")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(json.dumps({"key": key, "mode": mode.value}), encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        log.warning("batching_not_kept", file=str(file), error=str(error))
