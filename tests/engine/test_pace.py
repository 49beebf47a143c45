"""Chunk sizes follow what steps were measured to take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.pace import LEAST_WORK, LOOK_EVERY, LOOK_TOKENS, STRETCH, PrefillPace, StepLoad

SHORT = 100
"""Tokens of the streams and prompts here, if nothing is said about them."""


def settled(decode_s: float, token_s: float, streams: int = 4, target_s: float = 0.1) -> PrefillPace:
    """After many steps on a machine where a stream's step and a prompt token cost this much."""
    pace = PrefillPace(max_chunk=256, target_s=target_s)
    for _ in range(60):
        pace.observe(decode_s, load(streams, 0))
        chunk = chunk_of(pace, streams)
        pace.observe(decode_s + chunk * token_s, load(streams, chunk))
    return pace


def chunk_of(pace: PrefillPace, decoding: int, prefilling: int = 1, behind: int = SHORT) -> int:
    return pace.chunk([SHORT] * decoding, [behind] * prefilling)


def load(decoding: int, prompt_tokens: int, behind: int = SHORT) -> StepLoad:
    attended = decoding * SHORT + prompt_tokens * behind
    return StepLoad(decoding, prompt_tokens, attended, behind if prompt_tokens else 0)


def test_alone_a_prompt_is_computed_in_the_largest_chunks() -> None:
    assert chunk_of(settled(0.065, 0.004), decoding=0) == 256


def test_beside_streams_a_step_keeps_their_rhythm() -> None:
    chunk = chunk_of(settled(decode_s=0.065, token_s=0.004), decoding=4)
    assert 0.8 * STRETCH * 0.065 <= 0.065 + chunk * 0.004 <= 1.1 * STRETCH * 0.065


def test_on_a_fast_machine_the_target_decides() -> None:
    chunk = chunk_of(settled(decode_s=0.01, token_s=0.0005), decoding=4)
    assert 0.09 <= 0.01 + chunk * 0.0005 <= 0.11


def test_beside_a_prompt_whose_tokens_become_dearer_the_rhythm_stays() -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    done, pauses = 0, []
    while done < 3000:
        chunk = chunk_of(pace, decoding=4, behind=done)
        pauses.append(0.045 + chunk * (0.0025 + 2.4e-6 * done))
        pace.observe(pauses[-1], load(4, chunk, behind=done))
        done += chunk
    # Before the first look it is not known yet that it is the tokens.
    assert max(pauses[LOOK_EVERY:]) < 1.1 * STRETCH * 0.045


def test_streams_that_seemed_dear_are_found_to_be_cheap_while_a_long_prompt_is_computed() -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    for _ in range(20):
        pace.observe(0.2, load(4, 0))
    done, pauses = 0, []
    while done < 3000:
        chunk = chunk_of(pace, decoding=4, behind=done)
        pauses.append(0.075 + chunk * (0.004 + 3e-6 * done))
        pace.observe(pauses[-1], load(4, chunk, behind=done))
        done += chunk
    assert max(pauses[len(pauses) // 2 :]) < 1.3 * STRETCH * 0.075


def test_what_is_read_of_a_long_prompt_in_every_step_is_not_taken_for_the_streams_own() -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    done, pauses = 0, []
    while done < 3000:
        chunk = chunk_of(pace, decoding=4, behind=done)
        pauses.append(0.074 + 1.7e-5 * done + chunk * 0.0026)
        pace.observe(pauses[-1], load(4, chunk, behind=done))
        done += chunk
    assert max(pauses) < 1.15 * STRETCH * 0.074


def test_behind_a_very_long_prompt_chunks_do_not_shrink_to_nothing() -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    for done in range(0, 60_000, 200):
        chunk = chunk_of(pace, decoding=4, behind=done)
        pace.observe(0.074 + 1.7e-5 * done + chunk * 0.0026, load(4, chunk, behind=done))
    without_s = 0.074 + 1.7e-5 * 60_000
    assert 0.8 * LEAST_WORK <= chunk * 0.0026 / without_s <= 1.2 * LEAST_WORK


def test_where_most_rows_wait_for_their_first_token_the_pause_may_be_longer() -> None:
    pace = settled(0.065, 0.004)
    assert chunk_of(pace, decoding=1, prefilling=7) > 4 * chunk_of(pace, decoding=1)


def test_a_burst_of_prompts_is_not_computed_in_ever_smaller_pieces() -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    for decoding in [0, *range(4, 14)] + [14] * 30:
        chunk = chunk_of(pace, decoding, prefilling=16 - decoding)
        pace.observe(0.045 + 0.005 * decoding + 0.0025 * chunk, load(decoding, chunk))
    assert chunk_of(pace, decoding=14, prefilling=2) > 40


def test_a_step_that_was_held_up_does_not_change_the_pace_for_long() -> None:
    pace = settled(decode_s=0.065, token_s=0.004)
    before = chunk_of(pace, decoding=4)
    pace.observe(20.0, load(4, before))
    for _ in range(12):
        pace.observe(0.065 + before * 0.004, load(4, before))
    assert 0.7 * before <= chunk_of(pace, decoding=4) <= 1.5 * before


@given(
    steps=st.lists(
        st.tuples(
            st.floats(0, 100),
            st.integers(0, 32),
            st.integers(0, 2000),
            st.integers(0, 10**9),
            st.integers(0, 10**6),
        ),
        max_size=40,
    ),
    decoding=st.lists(st.integers(0, 10**6), max_size=64),
    prefilling=st.lists(st.integers(0, 10**6), max_size=64),
)
def test_whatever_was_measured_a_chunk_makes_progress_within_its_bounds(
    steps: list[tuple[float, int, int, int, int]], decoding: list[int], prefilling: list[int]
) -> None:
    pace = PrefillPace(max_chunk=256, target_s=0.1)
    for seconds, *counts in steps:
        pace.observe(seconds, StepLoad(*counts))
    assert LOOK_TOKENS <= pace.chunk(decoding, prefilling) <= 256
