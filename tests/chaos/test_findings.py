"""How a chaos run is judged."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from tests.chaos.clients import Answer
from tests.chaos.findings import difference, gaps, judge
from tests.chaos.monkey import Kill
from tests.chaos.workload import Request, requests

TEXT = "The sea is wide and the sea is deep, and nobody has ever counted all of the fish that are in it."
GREEDY = Request("Tell me.", temperature=0.0, seed=1, max_tokens=3, stream=True)


def answer(text: str = TEXT, arrivals: tuple[float, ...] = (1.0, 2.0, 5.0), error: str | None = None) -> Answer:
    return Answer(GREEDY, text, 0.0, 6.0, arrivals, "length", prompt_tokens=10, completion_tokens=3, error=error)


@pytest.mark.parametrize(
    ("got", "shifted"),
    [
        (TEXT[:20] + TEXT[24:], True),  # lost
        (TEXT[:24] + TEXT[20:], True),  # repeated
        (TEXT[:20] + "changed its mind and went on about something else altogether.", False),
        (TEXT[:20], False),
    ],
)
def test_lost_and_repeated_text_is_told_from_text_that_was_drawn_anew(got: str, shifted: bool) -> None:
    found = difference(GREEDY, got, TEXT)
    assert found is not None
    assert found.shifted is shifted
    assert found.at >= 20


def test_equal_texts_do_not_differ() -> None:
    assert difference(GREEDY, TEXT, TEXT) is None


def kill(start_s: float = 1.5) -> Kill:
    return Kill(at=2.5, ready_after_s=start_s + 0.1, start_s=start_s, epoch=2)


def test_a_pause_is_from_the_kill_to_the_streams_next_piece() -> None:
    (gap,) = gaps(kill(), [answer()], prefill_s=0.25)
    assert (gap.seconds, gap.ideal_s) == (2.5, 1.75)


def test_only_what_no_cache_held_has_to_be_prefilled_again() -> None:
    (gap,) = judge([answer()], {GREEDY: TEXT}, [kill()], Counter({1: 500, 2: 6}), 12.0).gaps
    assert gap.ideal_s == 1.5 + 6 / 12


def test_what_was_on_its_way_at_the_kill_does_not_end_the_pause() -> None:
    (gap,) = gaps(kill(), [answer(arrivals=(1.0, 2.51, 5.0))], 0.0)
    assert gap.seconds == 2.5


@pytest.mark.parametrize("arrivals", [(), (3.0, 4.0), (1.0, 2.0)])
def test_a_stream_that_had_not_begun_or_had_all_has_no_pause(arrivals: tuple[float, ...]) -> None:
    assert gaps(kill(), [answer(arrivals=arrivals)], 0.0) == []


def test_a_run_that_kept_the_promise_has_no_problems() -> None:
    assert judge([answer()], {GREEDY: TEXT}, [kill(2.4)], Counter(), 12.0).problems() == []


def test_every_broken_promise_is_a_problem() -> None:
    bad = [answer(error="503"), answer(TEXT[:20] + TEXT[24:]), answer(TEXT[:30] + "x" * 40)]
    problems = judge(bad, {GREEDY: TEXT}, [kill(0.1)], Counter(), 1000.0).problems()
    assert [problem.partition(":")[0] for problem in problems[:2]] == ["failed", "lost or repeated"]
    assert "no tie (margin None)" in problems[2]
    assert problems[3] == "2 of 2 greedy texts differ"
    assert "the median pause is" in problems[4]


@pytest.mark.parametrize(("margin", "tie"), [(0.0004, True), (0.002, False), (None, False)])
def test_a_greedy_text_that_differs_by_a_tie_is_no_problem_by_itself(margin: float | None, tie: bool) -> None:
    found = judge([answer(TEXT[:30] + "x" * 40)], {GREEDY: TEXT}, [kill(2.4)], Counter(), 12.0)
    (difference,) = found.differences
    closer = dataclasses.replace(found, differences=(dataclasses.replace(difference, margin=margin),))
    assert closer.ties == tie
    assert (closer.problems() == []) is tie


def test_a_run_in_which_nothing_was_interrupted_proves_nothing() -> None:
    assert judge([answer()], {GREEDY: TEXT}, [], Counter(), 12.0).problems() == ["nothing was interrupted"]


def test_the_same_seed_makes_the_same_requests() -> None:
    assert requests(3, 20) == requests(3, 20) != requests(4, 20)
