"""Load a model folder into a batch, on the step thread, with MLX's limits set first."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import mlx_lm.utils
import structlog
from mlx.utils import tree_flatten, tree_reduce

from ..config import Engine, EngineProcess
from . import batching, memory
from .blocks import root_hash
from .draft_model import DraftModel
from .drafting import Drafting
from .errors import GrammarError, ModelError
from .grammar import GrammarCompiler
from .kv_arrays import Quantization
from .kv_cost import NO_KV, KvBudget, KvCost, measured
from .kv_disk import DiskTier
from .mlx_batch import MlxBatch
from .prefix_blocks import BLOCK_TOKENS
from .prefix_cache import PrefixCache
from .protocol import Limits
from .ragged import RaggedModel
from .ragged_attention import hook_attention
from .row_state import leaves

STACKED_SHARE = 8
"""Copies of the KV of short rows (`row_stack`) may take an eighth of the KV budget, beside it."""
DEFAULT_CONTEXT_TOKENS = 8192
"""For a model whose configuration names no window."""

log = structlog.get_logger(__name__)


def load_batch(settings: EngineProcess) -> MlxBatch:
    """Raises `ModelError` when the folder cannot be loaded; any other error means that the engine is unwell."""
    assert settings.model_path is not None, "an MLX engine without a model folder"
    bounds = memory.set_limits(settings.engine.memory_limit_bytes, settings.engine.cache_limit_bytes)
    hook_attention()
    model, config = _load(settings.model_path)
    weights = _nbytes(model)
    fingerprint = _fingerprint(settings.model_path)
    # Beside the cache's folder, which is the cache's own.
    ragged = batching.ragged(model, fingerprint, settings.kv_path.with_name(f"{settings.kv_path.name}.batching"))
    _quantize_kv(settings.engine, ragged)
    text_config = {**config, **config.get("text_config", {})}
    vocabulary = int(text_config["vocab_size"])
    engine = settings.engine
    drafts = engine.speculation == "auto" and ragged.trims
    draft_model, draft_weights, draft_cost = _draft_model(settings, vocabulary) if drafts else (None, 0, NO_KV)
    weights += draft_weights
    row = memory.short_row(ragged)
    kv = KvBudget(measured(row.caches), engine.kv_budget_bytes or bounds.kv_budget(weights), draft_cost)
    log.info(
        "model_loaded",
        model=settings.model_name,
        weights_bytes=weights,
        kv_budget_bytes=kv.nbytes,
        kv_budget_tokens=kv.tokens,
        batching=ragged.mode.value,
    )
    window = int(text_config.get("max_position_embeddings") or DEFAULT_CONTEXT_TOKENS)
    limits = Limits(
        max_running=engine.max_running,
        max_waiting=engine.max_waiting,
        context_tokens=min(engine.context_tokens or window, window),
        kv_tokens=kv.tokens,
    )
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    if on_cpu:
        ragged.stack_short_rows(kv.nbytes // STACKED_SHARE)
    mx.clear_cache()
    return MlxBatch(
        ragged,
        name=settings.model_name,
        limits=limits,
        vocabulary=vocabulary,
        memory=memory.MemoryPlan(weights, kv, bounds.limit, memory.arrays(_count(model), row)),
        grammars=_grammars(settings.model_path, vocabulary, config.get("eos_token_id")),
        prefixes=_prefix_cache(settings, ragged, fingerprint, kv.nbytes),
        drafting=Drafting(drafts, time.perf_counter, draft_model),
        runs_ahead=not on_cpu,
    )


def _load(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The model and its configuration."""
    try:
        model, config = mlx_lm.utils.load_model(folder)
    except (ValueError, KeyError, TypeError, OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "safetensors" not in str(error):
            # Not about the files: MLX itself failed, and a new process may fare better.
            raise
        raise ModelError(f"cannot load the model in {folder}: {error}") from error
    return model, config


def _nbytes(model: Any) -> int:
    total: int = tree_reduce(lambda total, array: total + array.nbytes, model.parameters(), 0)  # type: ignore[no-untyped-call]
    return total


def _count(model: Any) -> int:
    return len(tree_flatten(model.parameters()))


def _draft_model(settings: EngineProcess, vocabulary: int) -> tuple[DraftModel | None, int, KvCost]:
    """The configured draft model, the bytes of its weights and what its rows take."""
    folder = settings.draft_model_path
    if folder is None:
        return None, 0, NO_KV
    model, _ = _load(folder)
    ragged = RaggedModel.probe(model)
    if not ragged.trims:
        raise ModelError(
            f"{folder} cannot draft: its state (recurrent or sliding) cannot take back what was refused; "
            "use a draft model with plain attention, or none"
        )
    log.info("draft_model_loaded", folder=str(folder), batching=ragged.mode.value)
    return DraftModel(ragged, vocabulary), _nbytes(model), memory.kv_cost(ragged)


def _grammars(folder: Path, vocabulary: int, end_ids: int | list[int] | None) -> GrammarCompiler | None:
    """None for a model whose tokenizer the grammar library cannot read: it serves, but not with a grammar."""
    ends = [end_ids] if isinstance(end_ids, int) else end_ids or []
    try:
        return GrammarCompiler(folder, vocabulary, ends)
    except GrammarError as error:
        log.warning("grammars_off", error=str(error))
        return None


def _quantize_kv(engine: Engine, model: RaggedModel) -> None:
    """As configured; refused now rather than at the first request."""
    for key, bits in (("kv_bits", engine.kv_bits), ("prefix_cache_bits", engine.prefix_cache_bits)):
        if bits is None:
            continue
        how = Quantization(bits, engine.kv_group_size)
        try:
            if key == "kv_bits":
                model.quantize_kv(how)
            else:
                model.check_groups(how)
        except ModelError as error:
            raise ModelError(f"`engine.{key}` = {bits} cannot work with this model: {error}") from error


def _prefix_cache(settings: EngineProcess, model: RaggedModel, fingerprint: str, kv_bytes: int) -> PrefixCache | None:
    engine = settings.engine
    if not engine.prefix_cache_ram_bytes or not model.resumes:
        return None
    quantization = Quantization(engine.prefix_cache_bits, engine.kv_group_size) if engine.prefix_cache_bits else None
    root = root_hash(
        model=fingerprint,
        mlx_lm=mlx_lm.__version__,
        caches=[type(leaf).__name__ for leaf in leaves(model.new_row().caches)],
        block_tokens=BLOCK_TOKENS,
        kv=_kv_form(model, quantization),
    )
    disk = None
    if engine.prefix_cache_disk_bytes:
        disk = DiskTier(settings.kv_path, engine.prefix_cache_disk_bytes, version=root.hex())
    ram_bytes = min(engine.prefix_cache_ram_bytes, kv_bytes)
    return PrefixCache(root, ram_bytes, disk, model, quantization)


def _kv_form(model: RaggedModel, kept: Quantization | None) -> str:
    """What the same tokens' KV differs by besides the model. Rows' own and kept quantization give different KV."""
    return f"kept {kept}" if kept is not None else str(model.quantization or "model")


def _fingerprint(folder: Path) -> str:
    """Of the configuration's content and the weights' names, sizes and times: reading gigabytes would take too long."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        stat = file.stat()
        digest.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()
