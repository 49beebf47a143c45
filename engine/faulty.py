"""A batch whose process goes wrong with real MLX arrays, to show that what watches it finds out. Step thread only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import mlx.core as mx

from ..config import Fault
from .batch import Batch
from .scheduler import Chunk

MAX_FRAGMENT_STEPS = 64


def with_faults(batch: Batch, faults: Sequence[Fault], epoch: int, called: Callable[[], bool]) -> Batch:
    """The batch itself where no fault applies to this incarnation; `called` says whether their signal has come."""
    now = [fault for fault in faults if fault.epochs == 0 or epoch <= fault.epochs]
    return cast(Batch, _FaultyBatch(batch, now, called)) if now else batch


class _FaultyBatch:
    """The batch, but for what happens beside each step."""

    def __init__(self, batch: Batch, faults: Sequence[Fault], called: Callable[[], bool]) -> None:
        self._batch = batch
        self._called = called
        self._faults = faults
        self._leaked: list[mx.array] = []
        self._steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def launch(self, chunks: Sequence[Chunk]) -> None:
        self._steps += 1
        for fault in self._faults:
            if self._called() if fault.on_signal else self._steps > fault.after_tokens:
                self._suffer(fault)
        self._batch.launch(chunks)

    def _suffer(self, fault: Fault) -> None:
        match fault.kind:
            case "leak":
                self._leaked.append(_held(int(fault.amount)))
            case "fragment":
                # Never twice the same size, so that none is of use for the next.
                _held(int(fault.amount * (1 + self._steps % MAX_FRAGMENT_STEPS)))
            case other:
                raise AssertionError(f"{other} is a fault of the simulated engine")


def _held(nbytes: int) -> mx.array:
    """Memory that MLX has really taken."""
    array = mx.zeros((nbytes,), dtype=mx.uint8)
    mx.eval(array)
    return array
