"""The schedule, driven by random arrivals, cancellations and steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from stoker.engine.protocol import Priority, Tighten
from stoker.engine.scheduler import BATCH_PATIENCE_S, Chunk, Row, Scheduler

IDLE, BUSY = 64, 16


def admit_all(schedule: Scheduler, held: str = "", fits: Callable[[str], bool] = lambda row_id: True) -> list[str]:
    return list(iter(lambda: schedule.admit(lambda row_id: row_id in held, fits), None))


def step(schedule: Scheduler) -> tuple[Chunk, ...]:
    """Admit, plan and apply; what was planned."""
    admit_all(schedule)
    chunks = schedule.plan()
    schedule.apply(chunks)
    return chunks


def scheduler(max_running: int = 4, max_waiting: int = 8) -> Scheduler:
    return Scheduler(max_running, max_waiting, lambda decoding, prefilling: BUSY if decoding else IDLE)


def row(name: str, known: int, budget: int = 10, arrived_at: float = 0.0, batch: bool = False) -> Row:
    return Row(name, known, budget, arrived_at, Priority.BATCH if batch else Priority.INTERACTIVE)


def piece(name: str, start: int, count: int, draws: int = 0) -> Chunk:
    return Chunk(name, start, count, draws)


def token(name: str, at: int, draws: int) -> Chunk:
    return Chunk(name, at, 1, draws, decodes=True)


def test_a_row_prefills_in_chunks_draws_at_the_end_of_the_last_and_goes_on_to_its_budget() -> None:
    schedule = scheduler()
    schedule.add(row("a", known=100, budget=3))
    assert [step(schedule) for _ in range(5)] == [
        (piece("a", 0, 64),),
        (piece("a", 64, 36, draws=3),),
        (token("a", 100, draws=2),),
        (token("a", 101, draws=1),),
        (),
    ]


def test_chunks_shrink_while_streams_decode() -> None:
    schedule = scheduler()
    schedule.add(row("stream", known=1))
    step(schedule)
    schedule.add(row("long", known=1000))
    assert step(schedule) == (token("stream", 1, draws=9), piece("long", 0, BUSY))


def test_short_prompts_share_a_step_and_go_before_a_long_one() -> None:
    schedule = scheduler()
    for name, length in (("long", 1000), ("short", 10), ("shorter", 5)):
        schedule.add(row(name, length))
    assert step(schedule) == (
        piece("shorter", 0, 5, draws=10),
        piece("short", 0, 10, draws=10),
        piece("long", 0, 49),
    )


def test_a_long_prompt_that_waited_long_enough_goes_first() -> None:
    schedule = scheduler()
    schedule.add(row("long", 1000, arrived_at=0.0))
    schedule.add(row("short", 10, arrived_at=60.0))
    assert step(schedule)[0].id == "long"


def test_the_queue_counts_what_the_next_step_will_admit() -> None:
    schedule = scheduler(max_running=2, max_waiting=1)
    for name in "abc":
        assert schedule.can_add()
        schedule.add(row(name, 1))
    assert not schedule.can_add()
    step(schedule)
    assert (schedule.running, schedule.waiting, schedule.can_add()) == (2, 1, False)
    schedule.remove("a")
    assert schedule.can_add()


def test_a_row_that_had_better_wait_lets_others_pass_and_comes_first_afterwards() -> None:
    schedule = scheduler(max_running=2)
    for name in "abc":
        schedule.add(row(name, 10))
    assert admit_all(schedule, held="a") == ["b", "c"]
    schedule.remove("b")
    schedule.add(row("d", 10))
    assert admit_all(schedule) == ["a"]


def test_what_was_found_is_not_computed() -> None:
    schedule = scheduler()
    schedule.add(row("a", 100))
    admit_all(schedule)
    schedule.found("a", 90)
    assert schedule.plan() == (piece("a", 90, 10, draws=10),)


def test_interactive_requests_are_admitted_before_batch_ones_that_came_a_little_earlier() -> None:
    schedule = scheduler(max_running=2)
    schedule.add(row("batch", 10, arrived_at=0.0, batch=True))
    schedule.add(row("second", 10, arrived_at=2.0))
    schedule.add(row("first", 10, arrived_at=1.0))
    assert admit_all(schedule) == ["first", "second"]


def test_a_batch_request_that_waited_long_enough_is_admitted_first() -> None:
    schedule = scheduler(max_running=1)
    schedule.add(row("batch", 10, arrived_at=0.0, batch=True))
    schedule.add(row("late", 10, arrived_at=BATCH_PATIENCE_S + 1))
    assert admit_all(schedule) == ["batch"]


def test_an_interactive_prompt_is_computed_before_a_batch_one_that_is_a_little_shorter() -> None:
    schedule = scheduler()
    schedule.add(row("batch", 100, batch=True))
    schedule.add(row("interactive", 200))
    assert step(schedule) == (piece("interactive", 0, IDLE),)


def test_nobody_passes_a_row_that_there_is_no_room_for_yet() -> None:
    schedule = scheduler()
    for name in ("a", "large", "small"):
        schedule.add(row(name, 10))
    assert admit_all(schedule, fits=lambda name: name != "large") == ["a"]
    schedule.remove("a")
    assert admit_all(schedule, fits=lambda name: name != "large") == ["large", "small"], "a row alone has room"


def test_the_last_rank_gives_up_its_kv_and_the_only_row_never_does() -> None:
    schedule = scheduler()
    schedule.add(row("batch", 10, arrived_at=0.0, batch=True))
    schedule.add(row("young", 10, arrived_at=2.0))
    schedule.add(row("old", 10, arrived_at=1.0))
    admit_all(schedule)
    victims = []
    while (victim := schedule.victim()) is not None:
        victims.append(victim)
        schedule.preempted(victim, known=10)
    assert victims == ["batch", "young"]
    assert admit_all(schedule) == ["young", "batch"]


def test_a_preempted_row_computes_all_that_it_knows_and_draws_what_is_left_of_its_budget() -> None:
    schedule = scheduler()
    schedule.add(row("a", 100, budget=5))
    for _ in range(4):
        step(schedule)
    schedule.preempted("a", known=102)
    assert [step(schedule) for _ in range(5)] == [
        (piece("a", 0, 64),),
        (piece("a", 64, 38, draws=3),),
        (token("a", 102, draws=2),),
        (token("a", 103, draws=1),),
        (),
    ]


def test_tightened_it_admits_fewer_and_computes_less_until_that_is_lifted() -> None:
    schedule = scheduler(max_running=3)
    schedule.add(row("a", 100))
    schedule.add(row("b", 100))
    schedule.tighten(Tighten(max_running=1, chunk_tokens=8))
    assert step(schedule) == (piece("a", 0, 8),)
    assert (schedule.running, schedule.waiting) == (1, 1)
    schedule.tighten(Tighten())
    assert step(schedule) == (piece("a", 8, IDLE),)
    assert schedule.running == 2


class ScheduleMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order, each row is computed gaplessly and draws at most its budget."""

    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.schedule = scheduler()
        self.now = 0.0
        self.next_id = 0
        self.computed: defaultdict[str, int] = defaultdict(int)
        self.drawn: defaultdict[str, int] = defaultdict(int)
        self.lengths: dict[str, tuple[int, int]] = {}

    @precondition(lambda self: self.schedule.can_add())
    @rule(target=rows, known=st.integers(1, 200), budget=st.integers(1, 20))
    def add(self, known: int, budget: int) -> str:
        name = f"r{self.next_id}"
        self.next_id += 1
        self.schedule.add(row(name, known, budget, arrived_at=self.now))
        self.lengths[name] = (known, budget)
        return name

    @rule(name=consumes(rows))
    def remove(self, name: str) -> None:
        self.schedule.remove(name)
        del self.lengths[name]

    @rule(seconds=st.floats(0, 5), data=st.data())
    def step(self, seconds: float, data: st.DataObject) -> None:
        self.now += seconds
        waiting = self.schedule.waiting
        while (
            name := self.schedule.admit(
                lambda row_id: data.draw(st.booleans()), lambda row_id: data.draw(st.booleans())
            )
        ) is not None:
            found = data.draw(st.integers(0, self.lengths[name][0] - 1))
            self.schedule.found(name, found)
            self.computed[name] = found
        assert self.schedule.waiting <= waiting
        chunks = self.schedule.plan()
        assert len({chunk.id for chunk in chunks}) == len(chunks)
        pieces = [chunk for chunk in chunks if chunk.start < self.lengths[chunk.id][0]]
        decodes = len(pieces) < len(chunks)
        assert sum(chunk.count for chunk in pieces) <= (BUSY if decodes else IDLE)
        for chunk in chunks:
            known, budget = self.lengths[chunk.id]
            assert chunk.count > 0
            assert chunk.start == self.computed[chunk.id]
            self.computed[chunk.id] += chunk.count
            reaches_the_end = self.computed[chunk.id] >= known
            assert chunk.draws == (budget - self.drawn[chunk.id] if reaches_the_end else 0)
            assert chunk.draws >= reaches_the_end
            self.drawn[chunk.id] += reaches_the_end
        if not chunks:
            assert self.schedule.running <= sum(
                self.drawn[name] == budget for name, (_, budget) in self.lengths.items()
            )
        self.schedule.apply(chunks)

    @precondition(lambda self: self.unfinished_victim() is not None)
    @rule()
    def preempt(self) -> None:
        """What was drawn becomes part of what is known, and all of it is computed again."""
        name = self.unfinished_victim()
        assert name is not None
        known, budget = self.lengths[name]
        drawn = self.drawn.pop(name, 0)
        self.lengths[name] = (known + drawn, budget - drawn)
        self.computed[name] = 0
        self.schedule.preempted(name, known + drawn)

    def unfinished_victim(self) -> str | None:
        """A row that drew all that it may ends before anybody is preempted."""
        name = self.schedule.victim()
        return name if name is not None and self.drawn[name] < self.lengths[name][1] else None

    @rule(data=st.data())
    def accept_drafts(self, data: st.DataObject) -> None:
        """A step of one row turned out to have drawn more than the one token it was sure of."""
        rows = [name for name, (_, budget) in self.lengths.items() if 0 < self.drawn[name] < budget]
        if rows:
            name = data.draw(st.sampled_from(rows))
            accepted = data.draw(st.integers(0, self.lengths[name][1] - self.drawn[name]))
            self.schedule.credit(name, accepted)
            self.drawn[name] += accepted
            self.computed[name] += accepted

    @invariant()
    def counts_agree(self) -> None:
        self.schedule.check_integrity()
        assert self.schedule.running + self.schedule.waiting == len(self.lengths)


TestSchedule = ScheduleMachine.TestCase
TestSchedule.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 5)), min_size=1, max_size=12))
def test_every_row_ends_in_a_bounded_number_of_steps(lengths: list[tuple[int, int]]) -> None:
    schedule = scheduler(max_running=4, max_waiting=12)
    left = {}
    for index, (known, budget) in enumerate(lengths):
        schedule.add(row(f"r{index}", known, budget))
        left[f"r{index}"] = budget
    steps = 0
    while left:
        chunks = step(schedule)
        for chunk in chunks:
            left[chunk.id] -= chunk.draws > 0
            if left[chunk.id] == 0:
                schedule.remove(chunk.id)
                del left[chunk.id]
        steps += 1
        assert steps <= sum(known // BUSY + budget + 2 for known, budget in lengths)


class Memory:
    """KV by the token: what `Batch` answers, as simply as it can be."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.lengths: dict[str, int] = {}
        self.known: dict[str, int] = {}

    def fits(self, name: str) -> bool:
        sure = sum(max(length, self.known[other]) for other, length in self.lengths.items())
        return sure + self.known[name] <= self.tokens

    def holds(self, chunks: Sequence[Chunk]) -> bool:
        return sum(self.lengths.values()) + sum(chunk.count for chunk in chunks) <= self.tokens


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 40), st.booleans(), st.floats(0, 100)), min_size=1, max_size=10
    ),
    st.integers(0, 60),
)
def test_every_row_ends_however_little_memory_there_is(rows: list[tuple[int, int, bool, float]], spare: int) -> None:
    """As long as each fits alone. Who is first in rank is never preempted, so there is no livelock."""
    schedule = scheduler(max_running=4, max_waiting=12)
    memory = Memory(max(known + budget for known, budget, _, _ in rows) + spare)
    left: dict[str, int] = {}
    for index, (known, budget, batch, arrived_at) in enumerate(rows):
        schedule.add(row(f"r{index}", known, budget, arrived_at, batch))
        memory.known[f"r{index}"] = known
        left[f"r{index}"] = budget
    most_steps = sum((known + budget) * (len(rows) + 1) for known, budget, _, _ in rows)
    for _ in range(most_steps):
        while (name := schedule.admit(lambda name: False, memory.fits)) is not None:
            memory.lengths[name] = 0
        chunks = schedule.plan()
        while not memory.holds(chunks):
            victim = schedule.victim()
            assert victim is not None, "the last row does not fit"
            del memory.lengths[victim]
            came_with, budget, _, _ = rows[int(victim[1:])]
            memory.known[victim] = came_with + budget - left[victim]
            schedule.preempted(victim, memory.known[victim])
            chunks = schedule.plan()
        schedule.apply(chunks)
        for chunk in chunks:
            memory.lengths[chunk.id] += chunk.count
            left[chunk.id] -= chunk.draws > 0
            if left[chunk.id] == 0:
                schedule.remove(chunk.id)
                del left[chunk.id], memory.lengths[chunk.id]
        schedule.check_integrity()
        if not left:
            return
    raise AssertionError(f"{left} did not end in {most_steps} steps")
