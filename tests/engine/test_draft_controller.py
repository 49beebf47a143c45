"""How far drafts are trusted, against simulated rows and step times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest

from stoker.engine.draft_controller import Controller
from stoker.engine.protocol import DraftMethod
from stoker.engine.speculative import MAX_DRAFT, Offer, StepMeasure, Verdict

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

    def run(
        self, steps: int, chance: float, *, offered: float = 1.0, stacked: bool = False
    ) -> tuple[float, list[list[int]]]:
        """Tokens a second and every step's draft lengths; a row has a proposal in the share `offered` of its steps."""
        tokens, spent, plans = 0, 0.0, []
        for _ in range(steps):
            lengths_offered = [MAX_DRAFT if self._random.random() < offered else 0 for _ in self._names]
            offers = [
                Offer(name, length, stacked=stacked) for name, length in zip(self._names, lengths_offered, strict=True)
            ]
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


def test_a_stacked_row_drafts_only_what_also_pays_for_leaving_the_stack() -> None:
    def planned(accepted: int, *, stacked: bool) -> int:
        controller, rows = Controller(), [str(i) for i in range(4)]
        for _ in range(100):
            controller.observe(StepMeasure([Verdict(row, 2, accepted) for row in rows], 0.08 + 0.007 * 8))
            controller.observe(StepMeasure([Verdict(row, 0, 0) for row in rows], 0.08))
        return sum(controller.plan([Offer(row, MAX_DRAFT, stacked=stacked) for row in rows]))

    half, all_of_them = 1, 2
    # One row may have a probe.
    assert planned(half, stacked=False) > 2 >= planned(half, stacked=True)
    assert planned(all_of_them, stacked=True) > 8


def test_probes_of_stacked_rows_cost_no_more_time_than_others() -> None:
    probes = []
    for stacked in (False, True):
        batch = Batch(8, measured(EIGHT))
        batch.run(50, chance=0.0, stacked=stacked)
        _, plans = batch.run(1000, chance=0.0, stacked=stacked)
        probes.append(sum(any(lengths) for lengths in plans))
    assert 0 < probes[1] < probes[0] / 2


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


def test_a_draft_model_is_used_where_its_passes_pay_and_for_as_many_rows_as_one_pass_serves() -> None:
    offers = [Offer(f"row {i}", 8, DraftMethod.DRAFT_MODEL) for i in range(4)]

    def planned_after(pass_s: float) -> list[int]:
        controller = Controller()
        controller.observe(StepMeasure([Verdict(offer.row, 0, 0) for offer in offers], 0.1))
        lengths: list[int] = []
        for _ in range(100):
            lengths = controller.plan(offers)
            verdicts = [Verdict(o.row, n, n, o.method) for o, n in zip(offers, lengths, strict=True)]
            seconds = 0.1 + 0.002 * sum(lengths)
            controller.observe(StepMeasure(verdicts, seconds, max(lengths), pass_s if any(lengths) else 0.0))
        return lengths

    assert min(planned_after(0.01)) >= 4
    assert max(planned_after(5.0)) <= 2


def test_a_row_is_judged_for_each_method_by_itself() -> None:
    controller = Controller()
    for _ in range(20):
        wrong, right = Verdict("row", 4, 0, DraftMethod.PROMPT_LOOKUP), Verdict("row", 4, 4, DraftMethod.GRAMMAR)
        controller.observe(StepMeasure([wrong], 0.1))
        controller.observe(StepMeasure([right], 0.1))
    assert controller.chance("row", DraftMethod.PROMPT_LOOKUP) < 0.1
    assert controller.chance("row", DraftMethod.GRAMMAR) > 0.9
