"""Which way of batching is right for a model, remembered from one engine to the next.

Finding out takes several forward passes (`ragged.RaggedModel.probe`), and a restarted engine has clients that wait. The
answer depends on the model and on the code that runs it alone, so it holds for as long as those stay the same.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import mlx_lm
import msgspec
import structlog

from .. import __version__
from .ragged import Mode, RaggedModel

log = structlog.get_logger(__name__)


def ragged(model: object, fingerprint: str, file: Path) -> RaggedModel:
    """The model in its fastest mode that is right; `file` keeps the answer, or is passed over if that cannot be."""
    key = [fingerprint, str(mx.default_device()), version("mlx"), mlx_lm.__version__, __version__]
    known = _read(file, key)
    if known is not None:
        return _as_found(model, known)
    probed = RaggedModel.probe(model)
    _write(file, _Verdict(key, probed.mode, probed.resumes, probed.stacks))
    return probed


class _Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `RaggedModel.probe` found out, and of what."""

    key: list[str]
    mode: Mode
    resumes: bool
    stacks: bool


def _as_found(model: object, verdict: _Verdict) -> RaggedModel:
    ragged_model = RaggedModel(model, verdict.mode)
    ragged_model.resumes, ragged_model.stacks = verdict.resumes, verdict.stacks
    return ragged_model


def _read(file: Path, key: list[str]) -> _Verdict | None:
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Verdict)
    except (OSError, msgspec.MsgspecError):
        return None
    return kept if kept.key == key else None


def _write(file: Path, verdict: _Verdict) -> None:
    draft = file.with_name(f".{file.name}.draft")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(verdict))
        draft.replace(file)
    except OSError as error:
        log.warning("batching_not_kept", file=str(file), error=str(error))
