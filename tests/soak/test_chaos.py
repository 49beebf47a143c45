"""Plans of chaos: what the words mean, and that a seed says when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.soak.chaos import JITTER, Rule, planned, rule
from stoker.soak.chaos_log import ChaosLog
from stoker.soak.errors import BadPlan
from tests.soak.made import kill


def test_a_rule_is_so_often_or_so_many_times() -> None:
    assert rule("kill:1m") == Rule("kill", every_s=60.0)
    assert rule("stop:2x") == Rule("stop", times=2)


@pytest.mark.parametrize("text", ["kill", "kill:", "burn:1m", "kill:0x", "kill:1", "kill:1m;rm"])
def test_a_rule_that_means_nothing_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(BadPlan, match="write KIND:EVERY or KIND:TIMESx"):
        rule(text)


@given(st.integers(0, 1000), st.floats(60.0, 1e6), st.floats(1.0, 600.0), st.integers(1, 20))
def test_acts_come_in_order_within_the_run_and_about_as_often_as_asked(
    seed: int, duration_s: float, every_s: float, times: int
) -> None:
    rules = [Rule("kill", every_s=max(every_s, duration_s / 500)), Rule("stop", times=times)]
    acts = planned(rules, duration_s, seed)
    assert acts == sorted(acts)
    assert all(0 < act.at_s < duration_s * (1 + JITTER) for act in acts)
    assert sum(act.kind == "stop" for act in acts) == times
    assert acts == planned(
        [Rule("kill", every_s=max(every_s, duration_s / 500)), Rule("stop", times=times)], duration_s, seed
    )


def test_a_kill_a_minute_is_about_eighteen_in_twenty_minutes() -> None:
    acts = planned([rule("kill:1m")], 1200.0, seed=1)
    assert len(acts) == 19
    assert acts != planned([rule("kill:1m")], 1200.0, seed=2)


async def test_a_request_meets_an_act_that_falls_into_its_time() -> None:
    log = ChaosLog()
    log.add(kill(100.0, recovered_after_s=2.0))
    assert log.touches(99.0, 101.0) and log.touches(101.0, 110.0) and log.touches(106.0, 120.0)
    assert not log.touches(90.0, 99.0) and not log.touches(108.0, 120.0)
    assert [act.kind for act in log.written()] == ["kill"] and log.written() == []


async def test_while_an_act_is_under_way_everybody_meets_it() -> None:
    log = ChaosLog()
    with log.under_way(100.0):
        assert log.touches(90.0, 101.0) and not log.touches(90.0, 99.0)
    assert not log.touches(90.0, 101.0)
