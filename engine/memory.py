"""MLX's memory: its limits, set once before a model is loaded, and readings of it. Step thread only."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import structlog
from mlx.utils import tree_flatten

from .host_memory import cgroup_limit, physical_bytes
from .kv_cost import KvBudget, KvCost, measured
from .protocol import Memory
from .ragged import RaggedModel
from .row_state import RowState, leaves

HEADROOM_SHARE = 0.1
"""Of the memory, for what is neither weights nor KV nor the pool: a step's own arrays, and everything but MLX."""

LEAST_KV_BYTES = 256 * 1024 * 1024
"""A budget smaller than this would serve nobody: then the limit is the one to give way."""

PIECE_TOKENS = 32
"""More than one, since some caches lay out a piece and a single token differently."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes: `limit` is imposed on this process, None where nothing is; `available` is what it can count on."""

    limit: int | None
    available: int
    pool: int

    def kv_budget(self, weights: int) -> int:
        """What is left for KV beside the weights."""
        left = self.available - weights - self.pool - int(HEADROOM_SHARE * self.available)
        if left < LEAST_KV_BYTES:
            log.warning("little_memory_for_kv", left_bytes=left, available_bytes=self.available, weights_bytes=weights)
        return max(left, LEAST_KV_BYTES)


@dataclass(frozen=True, slots=True)
class Arrays:
    """How many arrays the weights are, and each row or cached prefix; `limit` is how many the GPU can have.

    MLX fails at that limit (oMLX #2535: after some hundred thousand tokens) and tells it, but not its own count,
    so this is what is known to be there: freed buffers in the pool and leaked ones come on top.
    """

    weights: int = 0
    a_row: int = 0
    limit: int | None = None


NO_ARRAYS = Arrays()


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the engine's memory is for: bytes of `weights`, the budget of KV, and the `limit` of all, if any."""

    weights: int
    kv: KvBudget
    limit: int | None = None
    arrays: Arrays = NO_ARRAYS

    def reading(self, kv: int, rows: int) -> Memory:
        """Bytes by kind now, of them `kv` in the keys and values of so many rows and cached prefixes.

        The footprint is for another thread to add.
        """
        return Memory(
            active=mx.get_active_memory(),
            cache=mx.get_cache_memory(),
            peak=mx.get_peak_memory(),
            weights=self.weights,
            kv=kv,
            limit=self.limit,
            kv_budget=self.kv.nbytes,
            arrays=self.arrays.weights + rows * self.arrays.a_row,
            arrays_limit=self.arrays.limit,
        )


def short_row(model: RaggedModel) -> RowState:
    """A row with a short piece that is never computed: only its shapes are of use."""
    row = model.new_row()
    model.forward([row], [PIECE_TOKENS], mx.zeros(PIECE_TOKENS, mx.uint32), wanted=[])
    return row


def kv_cost(model: RaggedModel) -> KvCost:
    """What this model's rows take."""
    return measured(short_row(model).caches)


def arrays(weights: int, row: RowState) -> Arrays:
    """For a model whose weights are so many, and whose rows are like this one."""
    a_row = len(tree_flatten([leaf.state for leaf in leaves(row.caches)]))
    limit = mx.device_info().get("resource_limit")
    return Arrays(weights, a_row, int(limit) if limit else None)


def set_limits(limit: int | None, pool: int) -> Bounds:
    """Bound what MLX takes and keeps, and on Metal wire what may be wired; returns the bounds that hold.

    Unbounded, the pool of freed buffers grows to several times the live set, and unwired weights are paged out under
    pressure. `limit` is the user's own; without one it is what the GPU or the control group allows.
    """
    recommended = _working_set_bytes()
    imposed = [bound for bound in (limit, recommended, cgroup_limit()) if bound is not None]
    bounds = Bounds(min(imposed, default=None), min([*imposed, physical_bytes()]), pool)
    mx.set_cache_limit(pool)
    mx.set_memory_limit(bounds.available)
    if recommended is not None:
        mx.set_wired_limit(min(recommended, bounds.available))
    return bounds


def held() -> int:
    """Bytes that MLX has from the system, read now."""
    return mx.get_active_memory() + mx.get_cache_memory()


def _working_set_bytes() -> int | None:
    """What the GPU may hold before macOS evicts; None where there is no such bound."""
    size = mx.device_info().get("max_recommended_working_set_size")
    return int(size) if size is not None else None
