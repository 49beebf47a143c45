"""When an engine counts as stalled, over virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import Heartbeat, Memory, Phase
from stoker.watchdog.stall import FIRST_HEARTBEAT_S, PATIENCE, UNMEASURED_FACTOR, Pace, StallDetector

STALL_AFTER_S = 10.0
TICK_S = 0.25


class Engine:
    """An engine under a detector's eyes; `run` lets time pass and returns the verdict, if there was one."""

    def __init__(self, stall_after_s: float = STALL_AFTER_S, phase: Phase = Phase.READY, warm: bool = False) -> None:
        self.detector = StallDetector(stall_after_s, TICK_S, warm)
        self.now = 1000.0
        self.phase = phase
        self.steps = self.computed = self.step_tokens = self.running = self.waiting = 0
        self.busy_s = 0.0
        self.beats = True

    def step(self, seconds: float, tokens: int = 1) -> str | None:
        """One step that ends after `seconds`."""
        self.step_tokens = tokens
        verdict = self.run(seconds)
        self.steps, self.busy_s, self.computed = self.steps + 1, self.busy_s + seconds, self.computed + tokens
        self.step_tokens = 0
        return verdict

    def run(self, seconds: float) -> str | None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + TICK_S)
            if self.beats:
                self.detector.heard(self.beat(), self.now)
            if (verdict := self.detector.check(self.now)) is not None:
                return verdict
        return None

    def beat(self) -> Heartbeat:
        return Heartbeat(
            epoch=1,
            pid=1,
            phase=self.phase,
            steps=self.steps,
            last_step_age=None,
            running=self.running,
            waiting=self.waiting,
            memory=Memory(),
            busy_s=self.busy_s,
            computed_tokens=self.computed,
            step_tokens=self.step_tokens,
        )


def warm(running: int = 3, step_s: float = 0.06) -> Engine:
    """An engine that has been decoding for a while."""
    engine = Engine()
    engine.running = running
    for _ in range(20):
        assert engine.step(step_s) is None
    return engine


def test_an_engine_that_steps_is_well_for_as_long_as_it_does() -> None:
    engine = warm()
    for _ in range(2000):
        assert engine.step(0.3) is None


def test_an_idle_engine_is_well_without_a_step() -> None:
    assert warm(running=0).run(3600) is None


def test_work_without_a_step_is_a_stall_at_the_bound() -> None:
    engine = warm()
    assert engine.run(STALL_AFTER_S - 0.5) is None
    assert engine.run(2) == "stalled: no step for 10.2 s with 3 requests running and 0 waiting (bound 10.0 s)"


def test_work_that_only_waits_counts_too() -> None:
    engine = warm(running=0)
    engine.waiting = 1
    verdict = engine.run(12)
    assert verdict is not None
    assert "0 requests running and 1 waiting" in verdict


def test_an_idle_hour_before_the_work_is_not_held_against_it() -> None:
    engine = warm(running=0)
    engine.run(3600)
    engine.running = 1
    assert engine.run(STALL_AFTER_S - 0.5) is None


def test_the_first_steps_get_more_time() -> None:
    engine = Engine()
    engine.waiting = 1
    assert engine.run(STALL_AFTER_S * UNMEASURED_FACTOR - 1) is None
    assert engine.run(2) is not None


def test_steps_that_were_slow_of_late_stretch_the_bound() -> None:
    engine = warm()
    assert engine.step(9.0) is None
    assert engine.run(9.0 * PATIENCE - 1) is None
    assert engine.run(2) is not None


def test_a_step_that_was_slow_long_ago_does_not() -> None:
    engine = warm()
    engine.step(9.0)
    for _ in range(400):
        engine.step(0.25)
    assert engine.run(12) is not None


def test_a_large_prefill_on_a_slow_machine_has_the_time_that_its_tokens_need() -> None:
    engine = warm()
    engine.step(4.0, tokens=64)  # 16 tokens a second
    for _ in range(400):
        engine.step(0.25)
    assert engine.step(40.0, tokens=1024) is None


def test_silence_is_a_stall_even_of_an_idle_engine() -> None:
    engine = warm(running=0)
    engine.beats = False
    assert engine.run(STALL_AFTER_S - 0.5) is None
    assert engine.run(2) == "stalled: no heartbeat for 10.2 s (bound 10.0 s)"


def test_a_loading_engine_may_be_silent_for_longer() -> None:
    engine = Engine(phase=Phase.LOADING)
    engine.run(600)
    engine.beats = False
    assert engine.run(STALL_AFTER_S * UNMEASURED_FACTOR - 1) is None
    assert engine.run(2) is not None


@pytest.mark.parametrize(("stall_after_s", "bound_s"), [(1.0, FIRST_HEARTBEAT_S), (20.0, 60.0)])
def test_a_process_that_never_says_a_word_is_replaced(stall_after_s: float, bound_s: float) -> None:
    engine = Engine(stall_after_s)
    engine.beats = False
    assert engine.run(bound_s - 1) is None
    assert engine.run(2) == f"stalled: no first heartbeat for {bound_s + 0.25:.1f} s (bound {bound_s:.1f} s)"


def test_an_engine_that_is_frozen_as_soon_as_it_is_ready_has_no_more_time_than_others() -> None:
    engine = Engine()
    engine.beats = False
    assert engine.run(5) is None
    engine.detector.became_ready(engine.now)
    assert engine.run(STALL_AFTER_S - 1) is None
    assert (engine.run(2) or "").startswith("stalled: no first heartbeat for 10")


def test_the_first_steps_get_no_more_time_where_an_engine_before_has_done_its_own() -> None:
    assert warm().detector.measured
    engine = Engine(warm=True)
    engine.waiting = 1
    assert engine.run(STALL_AFTER_S - 0.5) is None
    assert not engine.detector.measured
    assert engine.run(2) is not None


def test_rare_heartbeats_are_no_silence() -> None:
    assert StallDetector(0.5, heartbeat_s=1.0).check(1.0) is None
    detector = StallDetector(0.5, heartbeat_s=1.0)
    detector.heard(Engine().beat(), 0.0)
    assert [detector.check(tick / 4) for tick in range(16)] == [None] * 16


@given(st.floats(min_value=2, max_value=1e6), st.booleans())
def test_time_in_which_the_watchdog_was_frozen_is_not_held_against_the_engine(frozen_s: float, silent: bool) -> None:
    engine = warm()
    engine.now += frozen_s
    engine.beats = not silent
    assert engine.run(5) is None


@given(st.lists(st.tuples(st.floats(0.001, 5), st.integers(1, 256)), min_size=1, max_size=40))
def test_a_step_like_one_of_the_last_minute_is_never_a_stall(steps: list[tuple[float, int]]) -> None:
    engine = Engine()
    engine.running = 1
    for seconds, tokens in steps:
        assert engine.step(seconds, tokens) is None


def beats(*steps: tuple[float, int]) -> Iterator[tuple[Heartbeat, Heartbeat]]:
    engine = Engine()
    for seconds, tokens in steps:
        before = engine.beat()
        engine.step(seconds, tokens)
        yield before, engine.beat()


@pytest.mark.parametrize(
    ("tokens", "now", "expected_s"),
    [(0, 0.0, 2.0), (512, 0.0, 4.0), (0, 100.0, 0.0), (512, 100.0, 4.0)],
)
def test_a_step_takes_what_the_longest_recent_one_took_or_what_its_tokens_need(
    tokens: int, now: float, expected_s: float
) -> None:
    pace = Pace()
    for before, after in beats((0.1, 1), (2.0, 256), (0.2, 2)):
        pace.learn(before, after, 0.0)
    assert pace.step_s(tokens, now) == pytest.approx(expected_s)
