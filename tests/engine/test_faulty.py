"""Faults of a real MLX process, as far as MLX itself sees them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import cast

import mlx.core as mx
import pytest

from stoker.config import Fault
from stoker.engine.batch import Batch
from stoker.engine.fault_signal import called_for
from stoker.engine.faulty import with_faults
from stoker.engine.scheduler import Chunk


class Counting:
    """A batch that only counts its steps."""

    model = "counting"

    def __init__(self) -> None:
        self.launched = 0

    def launch(self, chunks: Sequence[Chunk]) -> None:
        self.launched += 1


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    mx.clear_cache()
    yield
    mx.clear_cache()


def faulty(batch: Counting, fault: Fault, epoch: int = 1) -> Batch:
    return with_faults(cast(Batch, batch), [fault], epoch, lambda: False)


def test_a_leak_is_memory_that_mlx_holds() -> None:
    counting, before = Counting(), mx.get_active_memory()
    leaking = faulty(counting, Fault(kind="leak", amount=1_000_000, after_tokens=2))
    for _ in range(5):
        leaking.launch([])
    assert counting.launched == 5
    assert 3_000_000 <= mx.get_active_memory() - before < 3_500_000
    assert leaking.model == "counting"


def test_a_pool_that_fragments_holds_what_nobody_uses() -> None:
    before = mx.get_active_memory()
    fragmenting = faulty(Counting(), Fault(kind="fragment", amount=100_000))
    for _ in range(20):
        fragmenting.launch([])
    assert mx.get_active_memory() == before
    assert mx.get_cache_memory() > 1_000_000


def test_a_fault_of_the_first_incarnation_is_not_one_of_the_second() -> None:
    counting: object = Counting()
    assert faulty(cast(Counting, counting), Fault(kind="leak", epochs=1), epoch=2) is counting


def test_a_fault_on_signal_waits_for_it_and_for_nothing_else() -> None:
    called = called_for([Fault(kind="leak", on_signal=True)])
    counting, before = Counting(), mx.get_active_memory()
    leaking = with_faults(cast(Batch, counting), [Fault(kind="leak", on_signal=True, amount=1_000_000)], 1, called)
    leaking.launch([])
    assert mx.get_active_memory() == before
    os.kill(os.getpid(), signal.SIGUSR2)
    leaking.launch([])
    assert mx.get_active_memory() - before >= 1_000_000
