"""Drafts repeat what the row itself said, and the controller makes them only as long as they pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.speculative import (
    MAX_DRAFT,
    Controller,
    Offer,
    PromptLookup,
    StepMeasure,
    Verdict,
)

few_tokens = st.lists(st.integers(0, 2), max_size=40)


def naive_lookup(tokens: list[int], limit: int, max_ngram: int = 4, min_ngram: int = 2) -> list[int]:
    """The definition: search backwards for each ending, and copy on."""
    for length in range(max_ngram, min_ngram - 1, -1):
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == tokens[-length:]:
                copy = list(tokens)
                for i in range(limit):
                    copy.append(copy[start + length + i])
                return copy[len(tokens) :]
    return []


@given(few_tokens, st.integers(0, 10))
def test_a_lookup_finds_what_a_search_of_the_whole_sequence_finds(tokens: list[int], limit: int) -> None:
    lookup = PromptLookup()
    lookup.extend(tokens)
    assert lookup.propose(limit) == naive_lookup(tokens, limit)


@given(few_tokens, st.lists(st.integers(0, 39), max_size=5))
def test_a_lookup_does_not_care_in_what_pieces_it_was_told(tokens: list[int], cuts: list[int]) -> None:
    whole, pieces = PromptLookup(), PromptLookup()
    whole.extend(tokens)
    for start, end in pairwise(sorted({0, *cuts, len(tokens)})):
        pieces.extend(tokens[start:end])
        pieces.propose(3)
    assert pieces.propose(8) == whole.propose(8)


@given(few_tokens)
def test_a_lookup_of_other_lengths_obeys_them(tokens: list[int]) -> None:
    lookup = PromptLookup(max_ngram=3, min_ngram=1)
    lookup.extend(tokens)
    assert lookup.propose(5) == naive_lookup(tokens, 5, max_ngram=3, min_ngram=1)


def test_the_longest_ending_decides_and_then_the_latest() -> None:
    lookup = PromptLookup()
    lookup.extend([1, 2, 3, 7, 9, 2, 3, 8, 9, 2, 3, 6, 1, 2, 3])
    assert lookup.propose(1) == [7]
    lookup.extend([9, 5, 2, 3])
    assert lookup.propose(1) == [9]


def test_a_phrase_that_repeats_is_drafted_to_the_limit() -> None:
    lookup = PromptLookup()
    lookup.extend([1, 2, 3, 1, 2, 3])
    assert lookup.propose(7) == [1, 2, 3, 1, 2, 3, 1]


# Measured with the demo model on two CPU cores: seconds of a step by the tokens that each row puts into it.
ALONE = {1: 0.056, 2: 0.063, 4: 0.075, 8: 0.086, 16: 0.114}
EIGHT = {1: 0.100, 2: 0.109, 4: 0.168, 8: 0.287, 16: 0.539}

StepSeconds = Callable[[int, int], float]
"""Of (rows, drafted tokens in all)."""


def measured(table: dict[int, float]) -> StepSeconds:
    """Between the points of a table, straight lines; past the last one, on along it."""

    def seconds(rows: int, drafted: int) -> float:
        per_row = 1 + drafted / rows
        for (low, low_s), (high, high_s) in pairwise(table.items()):
            if per_row <= high or high == max(table):
                return low_s + (high_s - low_s) * (per_row - low) / (high - low)
        raise AssertionError("a table of one point")

    return seconds


class Batch:
    """Rows whose draft tokens are accepted by chance, and the controller that plans for them."""

    def __init__(self, rows: int, seconds: StepSeconds, *, noise: float = 0.0, seed: int = 1) -> None:
        self.controller = Controller()
        self.seconds = seconds
        self._names = [f"row {i}" for i in range(rows)]
        self._noise = noise
        self._random = Random(seed)

    def run(self, steps: int, chance: float, *, offered: float = 1.0) -> tuple[float, list[list[int]]]:
        """Tokens a second and every step's draft lengths; a row has a proposal in the share `offered` of its steps."""
        tokens, spent, plans = 0, 0.0, []
        for _ in range(steps):
            offers = [Offer(name, MAX_DRAFT if self._random.random() < offered else 0) for name in self._names]
            lengths = self.controller.plan(offers)
            verdicts = [
                Verdict(name, length, self._accepted(length, chance))
                for name, length in zip(self._names, lengths, strict=True)
            ]
            seconds = self.seconds(len(offers), sum(lengths)) * (1 + self._noise * self._random.uniform(-1, 1))
            self.controller.observe(StepMeasure(verdicts, seconds))
            tokens += len(offers) + sum(verdict.accepted for verdict in verdicts)
            spent += seconds
            plans.append(lengths)
        return tokens / spent, plans

    def _accepted(self, drafted: int, chance: float) -> int:
        return next((i for i in range(drafted) if self._random.random() >= chance), drafted)


def without_drafts(rows: int, seconds: StepSeconds) -> float:
    return rows / seconds(rows, 0)


def mean(plans: Sequence[list[int]]) -> float:
    return sum(map(sum, plans)) / sum(map(len, plans))


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_row_alone_that_repeats_itself_gets_long_drafts(noise: float) -> None:
    batch = Batch(1, measured(ALONE), noise=noise)
    rate, plans = batch.run(300, chance=0.9)
    assert rate > 2.5 * without_drafts(1, batch.seconds)
    assert mean(plans[-100:]) > 8


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_batch_of_rows_that_repeat_themselves_gets_drafts_that_pay(noise: float) -> None:
    batch = Batch(8, measured(EIGHT), noise=noise)
    rate, plans = batch.run(300, chance=0.9)
    assert rate > 1.5 * without_drafts(8, batch.seconds)
    assert 1 <= mean(plans[-100:]) < 8


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("offered", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("rows", "table"), [(1, ALONE), (8, EIGHT)], ids=["alone", "batch"])
def test_text_that_does_not_repeat_costs_next_to_nothing(
    rows: int, table: dict[int, float], offered: float, noise: float
) -> None:
    batch = Batch(rows, measured(table), noise=noise)
    batch.run(50, chance=0.02, offered=offered)
    rate, _ = batch.run(2000, chance=0.02, offered=offered)
    assert rate > 0.97 * without_drafts(rows, batch.seconds)


def test_learning_that_a_text_does_not_repeat_costs_a_few_steps() -> None:
    batch = Batch(1, measured(ALONE))
    rate, _ = batch.run(100, chance=0.0)
    assert rate > 0.97 * without_drafts(1, batch.seconds)


def test_nothing_is_drafted_where_verifying_costs_as_much_as_decoding() -> None:
    batch = Batch(1, lambda rows, drafted: 0.05 * (rows + drafted))
    batch.run(50, chance=0.9)
    rate, plans = batch.run(1000, chance=0.9)
    assert mean(plans) < 0.05
    assert rate > 0.97 * without_drafts(1, batch.seconds)


def test_drafts_come_back_when_the_text_begins_to_repeat() -> None:
    batch = Batch(1, measured(ALONE))
    batch.run(500, chance=0.0)
    _, plans = batch.run(60, chance=0.95)
    assert mean(plans[-10:]) > 6


def test_drafts_stop_when_the_text_no_longer_repeats() -> None:
    batch = Batch(1, measured(ALONE))
    batch.run(500, chance=0.95)
    _, plans = batch.run(150, chance=0.0)
    assert mean(plans[-100:]) < 0.7


def test_drafts_stop_when_they_become_dear() -> None:
    batch = Batch(1, measured(ALONE))
    batch.run(200, chance=0.9)
    batch.seconds = lambda rows, drafted: 0.05 * (rows + drafted)
    batch.run(400, chance=0.9)
    _, plans = batch.run(200, chance=0.9)
    assert mean(plans) < 0.2


def test_a_first_step_that_was_held_up_is_soon_forgotten() -> None:
    batch = Batch(1, measured(ALONE))
    batch.controller.observe(StepMeasure([Verdict("row 0", 0, 0)], seconds=5.0))
    batch.run(50, chance=0.9)
    assert batch.controller.snapshot().step_s[1] == pytest.approx(0.056, rel=0.2)


def test_a_step_that_was_held_up_does_not_change_the_plan() -> None:
    batch = Batch(1, measured(ALONE))
    batch.run(100, chance=0.9)
    before = batch.controller.snapshot()
    batch.controller.observe(StepMeasure([Verdict("row 0", 0, 0)], seconds=30.0))
    after = batch.controller.snapshot()
    assert after.draft_token_s[1] == pytest.approx(before.draft_token_s[1], rel=0.5)


def test_rows_that_repeat_get_the_drafts_that_others_do_not_use() -> None:
    controller = Controller()
    costs = measured(EIGHT)
    lengths = [0] * 8
    for _ in range(200):
        verdicts = [Verdict(str(i), length, length if i < 2 else 0) for i, length in enumerate(lengths)]
        controller.observe(StepMeasure(verdicts, costs(8, sum(lengths))))
        lengths = controller.plan([Offer(str(i), MAX_DRAFT) for i in range(8)])
    assert min(lengths[:2]) > 4
    assert sum(lengths[2:]) <= 2


def test_a_draft_is_never_longer_than_what_was_proposed() -> None:
    batch = Batch(1, measured(ALONE))
    batch.run(50, chance=1.0)
    assert batch.controller.plan([Offer("row 0", 3)]) == [3]
    assert batch.controller.plan([Offer("row 0", 100)]) == [MAX_DRAFT]
    assert batch.controller.plan([Offer("row 0", 0)]) == [0]


def test_the_first_step_of_a_new_number_of_rows_is_a_plain_one() -> None:
    batch = Batch(2, measured(EIGHT))
    batch.run(50, chance=1.0)
    three = [Offer(f"row {i}", MAX_DRAFT) for i in range(3)]
    assert batch.controller.plan(three) == [0, 0, 0]
    batch.controller.observe(StepMeasure([Verdict(offer.row, 0, 0) for offer in three], seconds=0.1))
    assert sum(batch.controller.plan(three)) > 0


def test_a_row_that_left_is_an_average_one_when_its_name_comes_back() -> None:
    controller = Controller()
    controller.observe(StepMeasure([Verdict("a", 0, 0)], seconds=0.05))
    for row, accepted in (("a", 0), ("b", MAX_DRAFT)) * 20:
        controller.observe(StepMeasure([Verdict(row, MAX_DRAFT, accepted)], seconds=0.1))
    assert controller.plan([Offer("a", MAX_DRAFT)]) < controller.plan([Offer("b", MAX_DRAFT)])
    controller.forget("a")
    assert controller.plan([Offer("a", MAX_DRAFT)]) == controller.plan([Offer("new", MAX_DRAFT)])


def test_the_snapshot_counts_what_was_drafted_and_accepted() -> None:
    controller = Controller()
    controller.observe(StepMeasure([Verdict("a", 4, 3), Verdict("b", 0, 0)], seconds=0.05))
    snapshot = controller.snapshot()
    assert (snapshot.drafted, snapshot.accepted) == (4, 3)
    assert snapshot.acceptance == pytest.approx((3 + 1) / (4 + 2), rel=0.01)
