"""Chunk sizes follow what steps were measured to take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.pace import MIN_CHUNK, STRETCH, PrefillPace


def settled(decode_s: float, token_s: float, streams: int = 4, target_s: float = 0.1) -> PrefillPace:
    """After many steps on a machine where a stream's step and a prompt token cost this much."""
    pace = PrefillPace(max_chunk=256, target_s=target_s)
    for _ in range(60):
        pace.observe(decode_s, streams, 0)
        chunk = pace.chunk(streams, 1)
        pace.observe(decode_s + chunk * token_s, streams, chunk)
    return pace


def test_alone_a_prompt_is_computed_in_the_largest_chunks() -> None:
    assert settled(0.065, 0.004).chunk(decoding=0, prefilling=1) == 256


def test_beside_streams_a_step_keeps_their_rhythm() -> None:
    pace = settled(decode_s=0.065, token_s=0.004)
    chunk = pace.chunk(decoding=4, prefilling=1)
    assert 0.8 * STRETCH * 0.065 <= 0.065 + chunk * 0.004 <= 1.1 * STRETCH * 0.065


def test_on_a_fast_machine_the_target_decides() -> None:
    chunk = settled(decode_s=0.01, token_s=0.0005).chunk(decoding=4, prefilling=1)
    assert 0.09 <= 0.01 + chunk * 0.0005 <= 0.11


def test_where_most_rows_wait_for_their_first_token_the_pause_may_be_longer() -> None:
    pace = settled(0.065, 0.004)
    assert pace.chunk(decoding=1, prefilling=7) > 4 * pace.chunk(decoding=1, prefilling=1)


def test_a_burst_of_prompts_is_not_computed_in_ever_smaller_pieces() -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    for decoding in [0, *range(4, 14)] + [14] * 30:
        chunk = pace.chunk(decoding, prefilling=16 - decoding)
        pace.observe(0.045 + 0.005 * decoding + 0.0025 * chunk, decoding, chunk)
    assert pace.chunk(decoding=14, prefilling=2) > 40


def test_a_step_that_was_held_up_does_not_change_the_pace_for_long() -> None:
    pace = settled(decode_s=0.065, token_s=0.004)
    before = pace.chunk(decoding=4, prefilling=1)
    pace.observe(20.0, 4, before)
    for _ in range(10):
        pace.observe(0.065 + before * 0.004, 4, before)
    assert 0.7 * before <= pace.chunk(decoding=4, prefilling=1) <= 1.5 * before


@given(
    steps=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 32), st.integers(0, 2000)), max_size=40),
    decoding=st.integers(0, 64),
    prefilling=st.integers(0, 64),
)
def test_whatever_was_measured_a_chunk_makes_progress_within_its_bounds(
    steps: list[tuple[float, int, int]], decoding: int, prefilling: int
) -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    for step in steps:
        pace.observe(*step)
    assert MIN_CHUNK <= pace.chunk(decoding, prefilling) <= 256
