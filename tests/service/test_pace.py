"""When to come back: from how fast requests end, and how many are ahead."""

from __future__ import annotations

from stoker.service.pace import RETRY_MAX_S, RETRY_MIN_S, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steady(every_s: float, times: int) -> tuple[Pace, Clock]:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(times):
        clock.now += every_s
        pace.ended()
    return pace, clock


def test_nothing_is_said_before_anything_ended() -> None:
    assert Pace(Clock()).retry_after_s(5) is None


def test_a_steady_pace_is_found_and_multiplied_by_who_is_ahead() -> None:
    pace, _ = steady(every_s=2.0, times=200)
    assert pace.retry_after_s(0) == 2
    assert pace.retry_after_s(9) in (19, 20, 21)


def test_it_is_found_early_too() -> None:
    pace, _ = steady(every_s=2.0, times=5)
    assert pace.retry_after_s(9) in range(14, 22)


def test_it_stays_within_its_bounds() -> None:
    fast, _ = steady(every_s=0.01, times=1000)
    assert fast.retry_after_s(0) == RETRY_MIN_S
    slow, clock = steady(every_s=50.0, times=3)
    assert slow.retry_after_s(100) == RETRY_MAX_S
    clock.now += 1e9
    assert slow.retry_after_s(0) == RETRY_MAX_S, "nothing has ended for ages"


def test_a_pace_that_falls_is_noticed() -> None:
    pace, clock = steady(every_s=1.0, times=300)
    before = pace.retry_after_s(3)
    clock.now += 120.0
    after = pace.retry_after_s(3)
    assert before is not None and after is not None
    assert after > before
