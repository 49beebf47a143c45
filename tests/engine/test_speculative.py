"""Drafts repeat what the row itself said, and the controller makes them only as long as they pay."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.speculative import LONGEST, SHORTEST, PromptLookup

few_tokens = st.lists(st.integers(0, 2), max_size=40)


def naive_lookup(tokens: list[int], limit: int) -> list[int]:
    """The definition: search backwards for each ending, the longest first, and copy on."""
    for length in range(LONGEST, SHORTEST - 1, -1):
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == tokens[-length:]:
                copy = list(tokens)
                for i in range(limit):
                    copy.append(copy[start + length + i])
                return copy[len(tokens) :]
    return []


@given(few_tokens, st.integers(0, 10))
def test_a_lookup_finds_what_a_search_of_the_whole_sequence_finds(tokens: list[int], limit: int) -> None:
    lookup = PromptLookup()
    lookup.extend(tokens)
    assert lookup.propose(limit) == naive_lookup(tokens, limit)


@given(few_tokens, st.lists(st.integers(0, 39), max_size=5))
def test_a_lookup_does_not_care_in_what_pieces_it_was_told(tokens: list[int], cuts: list[int]) -> None:
    whole, pieces = PromptLookup(), PromptLookup()
    whole.extend(tokens)
    for start, end in pairwise(sorted({0, *cuts, len(tokens)})):
        pieces.extend(tokens[start:end])
        pieces.propose(3)
    assert pieces.propose(8) == whole.propose(8)


def test_the_longest_ending_decides_and_then_the_latest() -> None:
    lookup = PromptLookup()
    lookup.extend([1, 2, 3, 7, 9, 2, 3, 8, 9, 2, 3, 6, 1, 2, 3])
    assert lookup.propose(1) == [7]
    lookup.extend([9, 5, 2, 3])
    assert lookup.propose(1) == [9]


def test_a_copy_goes_on_from_where_it_came_though_its_last_words_stood_elsewhere_since() -> None:
    common = [1, 2, 3, 4]
    first, second = [10, 11, *common, 12, 13], [20, 21, *common, 22, 23]
    lookup = PromptLookup()
    lookup.extend([*first, *second, 30, 10, 11, *common])
    assert lookup.propose(2) == [12, 13]


def test_a_phrase_that_repeats_is_drafted_to_the_limit() -> None:
    lookup = PromptLookup()
    lookup.extend([1, 2, 3, 1, 2, 3])
    assert lookup.propose(7) == [1, 2, 3, 1, 2, 3, 1]
