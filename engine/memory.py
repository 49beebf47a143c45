"""MLX's memory: its limits, set once before a model is loaded, and readings of it. Step thread only."""

from __future__ import annotations

import mlx.core as mx

from .protocol import Memory


def set_limits(cache_limit_bytes: int) -> None:
    """Bound the pool of freed buffers, and on Metal wire as much as the device recommends.

    Unbounded, the pool grows to several times the live set, and unwired weights are paged out under pressure.
    """
    mx.set_cache_limit(cache_limit_bytes)
    recommended = _working_set_bytes()
    if recommended is not None:
        mx.set_wired_limit(recommended)


def read(weights: int, kv: int) -> Memory:
    """Bytes by kind now; the footprint is for another thread to add."""
    return Memory(
        active=mx.get_active_memory(),
        cache=mx.get_cache_memory(),
        peak=mx.get_peak_memory(),
        weights=weights,
        kv=kv,
        limit=_working_set_bytes(),
    )


def _working_set_bytes() -> int | None:
    """What the GPU may hold before macOS evicts; None where there is no such bound."""
    size = mx.device_info().get("max_recommended_working_set_size")
    return int(size) if size is not None else None
