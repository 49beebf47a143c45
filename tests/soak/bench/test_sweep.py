"""A sweep goes up until more streams bring nothing, and says where that was."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stoker.soak.bench.figures import Seen
from stoker.soak.bench.sweep import doubling, full_at, slow_at, sweep
from tests.soak.outcomes import outcome, seen


async def swept(capacity: int, most: int, repeats: int = 1) -> tuple[list[tuple[int, int]], list[int], int | None]:
    asked: list[tuple[int, int]] = []

    async def sit(streams: int, repeat: int) -> Seen:
        asked.append((streams, repeat))
        return seen(*[outcome()] * min(streams, capacity))

    levels = await sweep(sit, doubling(most), repeats)
    return asked, [level.streams for level in levels], full_at(levels)


async def test_it_stops_one_step_after_the_target_is_full() -> None:
    assert await swept(capacity=4, most=64) == ([(1, 0), (2, 0), (4, 0), (8, 0)], [1, 2, 4, 8], 4)


async def test_a_target_that_is_never_full_is_said_to_be_so() -> None:
    _, levels, full = await swept(capacity=100, most=6)
    assert (levels, full) == ([1, 2, 4, 6], None)


async def test_every_repeat_measures_the_same_levels() -> None:
    asked, _, _ = await swept(capacity=2, most=64, repeats=2)
    assert asked == [(1, 0), (2, 0), (4, 0), (1, 1), (2, 1), (4, 1)]


async def test_the_level_at_which_the_first_word_takes_twice_as_long_is_named() -> None:
    async def sit(streams: int, repeat: int) -> Seen:
        return seen(outcome(first_token=0.1 * streams))

    assert slow_at(await sweep(sit, doubling(8), 1)) == 2


@given(st.integers(1, 5000))
def test_steps_double_and_end_with_what_was_asked(most: int) -> None:
    steps = doubling(most)
    assert steps[-1] == most
    assert list(steps) == sorted(set(steps))
    assert all(later <= 2 * earlier for earlier, later in itertools.pairwise(steps))
