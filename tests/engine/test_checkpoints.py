"""Where checkpoints are made: at the ends of prompts and forks, and in between no further apart than is allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.checkpoints import (
    ANSWER_SPACING_TOKENS,
    MAX_ALONG_PROMPT,
    ROW_SHARE,
    CheckpointPlan,
    spacing_along,
)

BLOCK = 64


def stops(plan: CheckpointPlan, begun: int, count: int) -> list[int]:
    found = [begun]
    for _ in range(count):
        found.append(plan.next_after(found[-1]))
    return found[1:]


def plan(begun: int, known: int, prompt_tokens: int, spacing: int | None) -> CheckpointPlan:
    return CheckpointPlan.along(
        begun=begun, known=known, prompt_tokens=prompt_tokens, spacing=spacing, block_tokens=BLOCK
    )


def test_a_prompt_is_saved_at_its_end_at_its_fork_and_along_the_way_then_every_block_of_the_answer() -> None:
    assert stops(plan(0, 640, 1300, 512), 0, 6) == [512, 640, 1024, 1280, 1344, 1408]


def test_a_row_that_begins_with_all_that_is_known_stops_at_no_fork() -> None:
    assert stops(plan(640, 640, 1300, None), 640, 3) == [1280, 1344, 1408]


def test_a_prompt_that_fills_its_last_block_leaves_one_token_to_compute() -> None:
    assert stops(plan(0, 0, 128, None), 0, 2) == [64, 128]


def test_a_stop_can_be_added_on_the_way_but_not_behind_the_prompt() -> None:
    on_the_way = plan(0, 0, 1300, None)
    on_the_way.add(192)
    on_the_way.add(192)
    on_the_way.add(1344 + BLOCK)
    assert stops(on_the_way, 0, 3) == [192, 1280, 1344]


def test_only_some_checkpoints_of_an_answer_last() -> None:
    of_row = plan(0, 0, 200, None)
    assert of_row.is_lasting(192)
    assert not of_row.is_lasting(256)
    assert of_row.is_lasting(ANSWER_SPACING_TOKENS)


def test_without_room_there_are_none_along_a_prompt() -> None:
    assert spacing_along(10_000, checkpoint_bytes=100, budget_bytes=100 * ROW_SHARE - 1) is None


@given(
    prompt=st.integers(1, 1_000_000),
    checkpoint_bytes=st.integers(0, 10**9),
    budget=st.integers(0, 10**11),
)
def test_checkpoints_along_a_prompt_keep_to_their_share(prompt: int, checkpoint_bytes: int, budget: int) -> None:
    spacing = spacing_along(prompt, checkpoint_bytes, budget)
    if spacing is None:
        return
    made = len(range(spacing, prompt, spacing))
    assert made <= MAX_ALONG_PROMPT
    assert made * checkpoint_bytes * ROW_SHARE <= budget


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_prompts_of_different_lengths_stop_at_the_same_places(one: int, other: int) -> None:
    fine, coarse = sorted(spacing_along(prompt, 0, 1 << 40) or 0 for prompt in (one, other))
    assert coarse % fine == 0
