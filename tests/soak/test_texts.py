"""Texts that part: lost, repeated, or drawn anew."""

from __future__ import annotations

import pytest

from stoker.soak.outcome import Outcome
from stoker.soak.references import AFTER_TURNS, REFERENCE, References, WithReferences
from stoker.soak.texts import Parting, parting
from stoker.soak.workloads import workload

TEXT = "The lighthouse stood on the rocks, and every night its keeper climbed the stairs to light the lamp again."


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (TEXT, None),
        (TEXT[:30] + TEXT[40:], Parting(30, shifted=True)),
        (TEXT[:40] + TEXT[30:], Parting(40, shifted=True)),
        (TEXT[:30] + " but then the storm came over the sea and nobody knew", Parting(30, shifted=False)),
        (TEXT[:30], Parting(30, shifted=False)),
    ],
)
def test_a_text_that_goes_on_elsewhere_has_lost_or_repeated_tokens(got: str, expected: Parting | None) -> None:
    assert parting(got, TEXT) == expected


def answered(conversation: int, text: str, workload: str = REFERENCE) -> Outcome:
    return Outcome(workload, conversation, 0, 0.0, 0.0, 0.1, 1.0, text=text)


def test_answers_are_compared_with_the_first_to_the_same_question() -> None:
    references = References({1: "Another."})
    assert references.is_first(answered(0, TEXT)) and not references.is_first(answered(1, "Another."))
    assert references.compared(answered(0, TEXT)) == (True, None)
    compared, found = references.compared(answered(0, TEXT[:30] + TEXT[40:]))
    assert compared and found is not None and found.shifted
    assert not references.is_first(answered(2, TEXT, workload="chat"))
    assert references.compared(answered(2, TEXT, workload="chat")) == (False, None)


def test_reference_questions_come_again_and_again_among_the_others() -> None:
    conversations = WithReferences(workload("chat", seed=1, scale=0.1)).conversations()
    asked = [next(conversations) for _ in range(100)]
    assert asked[0].workload == REFERENCE
    turns = sum(len(each.turns) for each in asked if each.workload != REFERENCE)
    assert turns / (2 * AFTER_TURNS) < sum(each.workload == REFERENCE for each in asked) <= turns / AFTER_TURNS + 1
    assert {each.number for each in asked if each.workload == REFERENCE} == {0, 1, 2, 3}
