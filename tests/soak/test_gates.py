"""Each gate: what it lets pass, what it fails for, and when it does not know."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from stoker.soak.gates import NAMES, GateResult
from stoker.soak.intervals import ENGINE_MLX, SERVICE, Interval, Low, Spell
from stoker.soak.keeping import Run
from stoker.soak.plan import Plan
from stoker.soak.run import judged
from stoker.watchdog.soak_news import GateOutcome
from tests.soak.made import BEGAN, LENGTH_S, PLAN, death, hours, interval, kill, run_of

PASS, FAIL, INCONCLUSIVE = GateOutcome.PASS, GateOutcome.FAIL, GateOutcome.INCONCLUSIVE


def gates(intervals: Sequence[Interval], plan: Plan = PLAN) -> dict[str, GateResult]:
    result = run_of(intervals, plan).result
    assert result is not None
    return {gate.gate: gate for gate in result.verdict.gates}


def failing(intervals: Sequence[Interval]) -> set[str]:
    return {name for name, gate in gates(intervals).items() if gate.outcome is FAIL}


def changed(intervals: list[Interval], number: int, **changes: object) -> list[Interval]:
    return [msgspec.structs.replace(each, **changes) if each.number == number else each for each in intervals]


def test_a_good_run_passes_every_gate() -> None:
    found = gates(hours(2))
    assert tuple(found) == NAMES
    assert {gate.outcome for gate in found.values()} == {PASS}, [gate.sentence for gate in found.values()]


def test_failed_requests_are_an_error_and_refused_ones_are_not() -> None:
    assert failing(changed(hours(2), 5, failures={"broken": 2}, errors=("broken: cut",))) == {"errors"}
    assert failing(changed(hours(2), 5, failures={"refused": 5, "rejected": 2})) == set()


@pytest.mark.parametrize("what", [{"shifted": 1}, {"findings": {"wrong_count": 1}}, {"findings": {"empty": 1}}])
def test_one_answer_with_a_lost_token_is_too_many(what: dict[str, object]) -> None:
    assert failing(changed(hours(2), 7, **what)) == {"tokens"}


def test_a_run_in_which_nothing_could_be_compared_proves_nothing_about_tokens() -> None:
    assert gates(hours(2, compared=0))["tokens"].outcome is INCONCLUSIVE


def test_an_answer_that_was_drawn_otherwise_or_repeats_itself_is_told_and_fails_nothing() -> None:
    assert failing(changed(hours(2), 7, altered=1, findings={"repetition": 3, "mojibake": 1})) == set()


def test_a_death_that_nobody_ordered_is_a_crash_and_an_incident() -> None:
    at = BEGAN + 5 * LENGTH_S + 10.0
    assert failing(changed(hours(2), 5, deaths=1, incidents=(death(at),))) == {"crashes", "incidents"}


def test_a_death_by_chaos_is_neither_and_its_downtime_is_excused() -> None:
    at = BEGAN + 5 * LENGTH_S + 10.0
    spells = (Spell(at - 10.0, at, "up"), Spell(at, at + 2.0, "down"), Spell(at + 2.0, at + 50.0, "up"))
    intervals = changed(hours(2), 5, deaths=1, incidents=(death(at),), acts=(kill(at),), spells=spells)
    assert failing(intervals) == set()
    summary = judged(Run("r", BEGAN, PLAN), intervals).summary
    assert (summary.excused_down_s, summary.uptime) == (2.0, 1.0)


def test_chaos_explains_only_what_it_causes() -> None:
    at = BEGAN + 5 * LENGTH_S
    intervals = changed(hours(2), 5, deaths=1, acts=(kill(at),), incidents=(death(at, "swap"),))
    assert failing(intervals) == {"incidents"}


def test_of_several_acts_the_last_one_explains() -> None:
    at = BEGAN + 5 * LENGTH_S
    stop = msgspec.structs.replace(kill(at + 150.0), kind="stop")
    intervals = changed(hours(2), 5, deaths=2, acts=(kill(at), stop), incidents=(death(at + 1.0), death(at + 160.0)))
    summary = judged(Run("r", BEGAN, PLAN), intervals).summary
    assert [incident.by for incident in summary.incidents] == ["kill", "stop"]


def test_a_tree_that_is_down_for_a_minute_of_two_hours_was_not_up() -> None:
    assert failing(changed(hours(2), 9, spells=(Spell(BEGAN + 540.0, BEGAN + 600.0, "down"),))) == {"uptime"}


def test_an_act_of_chaos_that_is_not_got_over_fails() -> None:
    assert failing(changed(hours(2), 9, deaths=1, acts=(kill(BEGAN + 550.0, None),))) == {"recovery"}


def test_slower_at_the_end_than_at_the_beginning_is_drift() -> None:
    slow = [interval(number, ttft_s=0.1 if number < 90 else 0.4) for number in range(120)]
    assert failing(slow) == {"ttft_drift"}


def test_few_requests_that_seem_slower_say_nothing() -> None:
    few = [interval(number, ttft_s=0.1 if number < 9 else 0.17) for number in range(12)]
    assert gates(few)["ttft_drift"].outcome in {PASS, INCONCLUSIVE}
    assert gates(hours(0.05))["ttft_drift"].outcome is INCONCLUSIVE


def test_memory_that_rises_whatever_the_load_is_a_leak() -> None:
    leaking = [interval(number, memory=1e8 + 2e6 * number) for number in range(120)]
    found = gates(leaking)
    assert failing(leaking) == {"memory"}
    assert found["memory"].value == pytest.approx(120e6, rel=0.05)


def test_memory_that_rises_once_and_stays_is_none() -> None:
    assert failing([interval(number, memory=1e8 if number < 50 else 3e8) for number in range(120)]) == set()


def test_a_leak_that_a_restart_mends_each_time_is_seen_in_one_incarnation() -> None:
    def low(number: int) -> dict[str, Low]:
        at, since_start = BEGAN + LENGTH_S * number, number % 60
        return {ENGINE_MLX: Low(at, 1e8 + 3e6 * since_start, 1, 100, number // 60)}

    assert failing([interval(number, lows=low(number)) for number in range(180)]) == {"memory"}


def test_the_service_may_leak_as_little_as_the_engine() -> None:
    lows = [{SERVICE: Low(BEGAN + LENGTH_S * n, 1e8 + 2e6 * n, 1, 1, 0)} for n in range(120)]
    assert failing([interval(number, lows=lows[number]) for number in range(120)]) == {"memory"}


def test_a_small_growth_in_a_short_run_is_none_however_fast() -> None:
    assert failing([interval(number, memory=1e8 + 1e6 * number) for number in range(30)]) == set()


def test_a_pool_that_is_mostly_free_at_the_end_is_fragmented() -> None:
    assert failing(hours(2, fragmentation=2.5)) == {"fragmentation"}
    assert failing([interval(number, fragmentation=3.0 if number < 60 else None) for number in range(120)]) == set()


def test_a_prefix_cache_that_stops_hitting_fails_by_the_workload_s_own_floor() -> None:
    assert failing(hours(2, cached_tokens=300)) == {"cache_hits"}
    lenient = msgspec.structs.replace(PLAN, gates={**PLAN.gates, "cache_hit_share": 0.05})
    assert gates(hours(2, cached_tokens=300), lenient)["cache_hits"].outcome is PASS


def test_a_run_of_few_requests_or_a_late_client_proves_nothing() -> None:
    assert gates(hours(0.03))["load"].outcome is INCONCLUSIVE
    assert gates(hours(2, lag_s=1.0))["load"].outcome is INCONCLUSIVE


def test_a_run_that_was_away_for_most_of_its_time_proves_nothing() -> None:
    first, second = (
        hours(0.5),
        [msgspec.structs.replace(each, since=each.since + 7200.0, until=each.until + 7200.0) for each in hours(0.5)],
    )
    assert gates([*first, *second])["load"].outcome is INCONCLUSIVE


def test_the_bounds_are_those_that_were_written_down_before() -> None:
    strict = msgspec.structs.replace(PLAN, gates={**PLAN.gates, "drift_ratio": 1.0001})
    slow = [interval(number, ttft_s=0.1 if number < 90 else 0.14) for number in range(120)]
    assert gates(slow)["ttft_drift"].outcome is PASS
    assert gates(slow, strict)["ttft_drift"].outcome is FAIL


def test_what_fails_is_the_first_reason() -> None:
    result = run_of(changed(hours(2, lag_s=1.0), 5, shifted=1)).result
    assert result is not None
    assert result.verdict.outcome is FAIL
    assert "lost or repeated" in result.verdict.reasons[0]
    assert len(result.verdict.reasons) == 2
