"""Load a model folder into a batch, on the step thread, with MLX's limits set first."""

from __future__ import annotations

import time
from pathlib import Path

import mlx.core as mx
import mlx_lm.utils
import structlog
from mlx.utils import tree_reduce

from ..config import EngineProcess
from . import memory
from .drafting import Drafting
from .errors import GrammarError, ModelError
from .grammar import GrammarCompiler
from .mlx_batch import MlxBatch
from .protocol import Limits
from .ragged import RaggedModel
from .ragged_attention import hook_attention

DEFAULT_CONTEXT_TOKENS = 8192
"""For a model whose configuration names no window."""

log = structlog.get_logger(__name__)


def load_batch(settings: EngineProcess) -> MlxBatch:
    """Raises `ModelError` when the folder cannot be loaded; any other error means that the engine is unwell."""
    assert settings.model_path is not None, "an MLX engine without a model folder"
    memory.set_limits(settings.engine.cache_limit_bytes)
    hook_attention()
    try:
        model, config = mlx_lm.utils.load_model(settings.model_path)
    except (ValueError, KeyError, TypeError, OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "safetensors" not in str(error):
            # Not about the files: MLX itself failed, and a new process may fare better.
            raise
        raise ModelError(f"cannot load the model in {settings.model_path}: {error}") from error
    weights: int = tree_reduce(lambda total, array: total + array.nbytes, model.parameters(), 0)  # type: ignore[no-untyped-call]
    ragged = RaggedModel.probe(model)
    log.info("model_loaded", model=settings.model_name, weights_bytes=weights, batching=ragged.mode.value)
    text_config = {**config, **config.get("text_config", {})}
    window = int(text_config.get("max_position_embeddings") or DEFAULT_CONTEXT_TOKENS)
    engine = settings.engine
    limits = Limits(
        max_running=engine.max_running,
        max_waiting=engine.max_waiting,
        context_tokens=min(engine.context_tokens or window, window),
    )
    vocabulary = int(text_config["vocab_size"])
    mx.clear_cache()
    return MlxBatch(
        ragged,
        name=settings.model_name,
        limits=limits,
        vocabulary=vocabulary,
        weights=weights,
        grammars=_grammars(settings.model_path, vocabulary, config.get("eos_token_id")),
        drafting=Drafting(enabled=engine.speculation == "auto" and ragged.trims, clock=time.perf_counter),
    )


def _grammars(folder: Path, vocabulary: int, end_ids: int | list[int] | None) -> GrammarCompiler | None:
    """None for a model whose tokenizer the grammar library cannot read: it serves, but not with a grammar."""
    ends = [end_ids] if isinstance(end_ids, int) else end_ids or []
    try:
        return GrammarCompiler(folder, vocabulary, ends)
    except GrammarError as error:
        log.warning("grammars_off", error=str(error))
        return None
