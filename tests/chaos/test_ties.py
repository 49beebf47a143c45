"""How a tie is told from a difference that matters."""

from __future__ import annotations

import pytest

from tests.chaos.ties import Choice, margin

RUN = [
    Choice("The ", -0.1, (("The ", -0.1), ("A ", -3.0))),
    Choice("sea", -0.7, (("sea", -0.7), ("see", -0.7004), ("s", -9.0))),
    Choice(" is", -0.2, ((" is", -0.2), (" was", -2.0))),
]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("The see was", 0.0004),  # `see` and not `s`
        ("A sea is", 2.9),
        ("The sea was", 1.8),
        ("The moon", None),  # not among the likeliest
        ("The sea is", None),  # the same
        ("The sea is deep", None),  # the same, but longer
    ],
)
def test_two_texts_are_as_far_apart_as_the_tokens_at_which_they_part(other: str, expected: float | None) -> None:
    assert margin(RUN, other) == (None if expected is None else pytest.approx(expected))
