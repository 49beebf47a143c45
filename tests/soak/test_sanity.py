"""What cannot be a model's text is found, and ordinary text is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.soak.outcome import Finding
from stoker.soak.sanity import findings, repeats


def found(text: str, count: int = 5, most: int = 10, finish: str = "stop") -> tuple[Finding, ...]:
    return findings(text, count, most, finish)


def test_an_ordinary_answer_is_sane() -> None:
    assert found("The sea is wide, and so is the sky.") == ()


def test_tokens_without_text_are_found() -> None:
    assert found("") == (Finding.EMPTY,)


@pytest.mark.parametrize("count", [9, 11])
def test_an_answer_cut_at_its_bound_has_just_so_many_tokens(count: int) -> None:
    assert found("Hello", count, 10, "length") == (Finding.WRONG_COUNT,)
    assert found("Hello", 10, 10, "length") == ()


def test_half_a_character_is_allowed_only_where_the_answer_was_cut() -> None:
    assert found("Hello \ufffd world") == (Finding.MOJIBAKE,)
    assert found("Hello \ufffd", 10, 10, "length") == ()


@given(st.text(min_size=1, max_size=60), st.text(max_size=50))
def test_a_loop_is_found_whatever_came_before(unit: str, before: str) -> None:
    assert repeats(before + unit * 600)


@given(st.lists(st.integers(0, 10**9), min_size=100, max_size=100, unique=True))
def test_a_list_of_different_lines_is_no_loop(numbers: list[int]) -> None:
    assert not repeats("\n".join(f"The number is {number}." for number in numbers))
