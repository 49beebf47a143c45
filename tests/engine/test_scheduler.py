"""The schedule, driven by random arrivals, cancellations and steps."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from stoker.engine.scheduler import Chunk, ChunkSizes, Row, Scheduler

SIZES = ChunkSizes(idle=64, busy=16)


def scheduler(max_running: int = 4, max_waiting: int = 8) -> Scheduler:
    return Scheduler(max_running, max_waiting, SIZES)


def row(name: str, prefill: int, budget: int = 10, arrived_at: float = 0.0) -> Row:
    return Row(name, prefill, budget, arrived_at)


def test_a_row_prefills_in_chunks_and_then_decodes_its_budget() -> None:
    schedule = scheduler()
    schedule.add(row("a", prefill=100, budget=2))
    steps = []
    for _ in range(6):
        plan = schedule.plan(now=0.0)
        schedule.apply(plan)
        steps.append((plan.prefill, plan.decode))
    assert steps == [
        ((Chunk("a", 0, 64),), ()),
        ((Chunk("a", 64, 36),), ()),
        ((), ("a",)),
        ((), ("a",)),
        ((), ()),
        ((), ()),
    ]


def test_chunks_shrink_while_streams_decode() -> None:
    schedule = scheduler()
    schedule.add(row("stream", prefill=0))
    schedule.add(row("long", prefill=1000))
    assert schedule.plan(now=0.0).prefill == (Chunk("long", 0, SIZES.busy),)


def test_short_prompts_share_a_step_and_go_before_a_long_one() -> None:
    schedule = scheduler()
    for name, length in (("long", 1000), ("short", 10), ("shorter", 5)):
        schedule.add(row(name, length))
    assert schedule.plan(now=0.0).prefill == (Chunk("shorter", 0, 5), Chunk("short", 0, 10), Chunk("long", 0, 49))


def test_a_long_prompt_that_waited_long_enough_goes_first() -> None:
    schedule = scheduler()
    schedule.add(row("long", 1000, arrived_at=0.0))
    schedule.add(row("short", 10, arrived_at=60.0))
    assert schedule.plan(now=60.0).prefill[0].id == "long"


def test_the_queue_counts_what_the_next_step_will_admit() -> None:
    schedule = scheduler(max_running=2, max_waiting=1)
    for name in "abc":
        assert schedule.can_add()
        schedule.add(row(name, 1))
    assert not schedule.can_add()
    schedule.apply(schedule.plan(now=0.0))
    assert (schedule.running, schedule.waiting, schedule.can_add()) == (2, 1, False)
    assert schedule.remove("a")
    assert schedule.can_add()


class ScheduleMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order, each row is prefilled gaplessly and decodes at most its budget."""

    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.schedule = scheduler()
        self.now = 0.0
        self.next_id = 0
        self.prefilled: defaultdict[str, int] = defaultdict(int)
        self.lengths: dict[str, tuple[int, int]] = {}

    @precondition(lambda self: self.schedule.can_add())
    @rule(target=rows, prefill=st.integers(0, 200), budget=st.integers(1, 20))
    def add(self, prefill: int, budget: int) -> str:
        name = f"r{self.next_id}"
        self.next_id += 1
        self.schedule.add(row(name, prefill, budget, arrived_at=self.now))
        self.lengths[name] = (prefill, budget)
        return name

    @rule(name=consumes(rows))
    def remove(self, name: str) -> None:
        self.schedule.remove(name)
        del self.lengths[name]

    @rule(seconds=st.floats(0, 5))
    def step(self, seconds: float) -> None:
        self.now += seconds
        plan = self.schedule.plan(self.now)
        assert sum(chunk.count for chunk in plan.prefill) <= (SIZES.busy if plan.decode else SIZES.idle)
        for chunk in plan.prefill:
            assert chunk.count > 0
            assert chunk.start == self.prefilled[chunk.id]
            self.prefilled[chunk.id] += chunk.count
        for name in plan.decode:
            assert self.prefilled[name] == self.lengths[name][0]
        if not (plan.decode or plan.prefill or plan.admit):
            assert self.schedule.waiting == 0 or self.schedule.running == 4
        self.schedule.apply(plan)

    @invariant()
    def counts_agree(self) -> None:
        self.schedule.check_integrity()
        assert self.schedule.running + self.schedule.waiting == len(self.lengths)


TestSchedule = ScheduleMachine.TestCase
TestSchedule.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 5)), min_size=1, max_size=12))
def test_every_row_ends_in_a_bounded_number_of_steps(lengths: list[tuple[int, int]]) -> None:
    schedule = scheduler(max_running=4, max_waiting=12)
    left = {}
    for index, (prefill, budget) in enumerate(lengths):
        schedule.add(row(f"r{index}", prefill, budget))
        left[f"r{index}"] = budget
    steps = 0
    while left:
        plan = schedule.plan(now=float(steps))
        schedule.apply(plan)
        for name in plan.decode:
            left[name] -= 1
            if left[name] == 0:
                schedule.remove(name)
                del left[name]
        steps += 1
        assert steps <= sum(prefill // SIZES.busy + budget + 2 for prefill, budget in lengths)
