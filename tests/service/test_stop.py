"""Stop strings: however the text arrives, it is cut in the same place, and nothing of a stop string gets out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.service.stop import StopMatcher, cut

letters = st.text(alphabet="ab ", max_size=30)
stop_lists = st.lists(st.text(alphabet="ab ", min_size=1, max_size=5), max_size=4)


def streamed(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    text = ""
    for piece in pieces:
        let_out, stopped = matcher.feed(piece)
        text += let_out
        if stopped is not None:
            return text, stopped
    return text + matcher.flush(), None


@given(st.lists(letters, max_size=8), stop_lists)
def test_any_chunking_is_cut_where_the_whole_is(pieces: list[str], stops: list[str]) -> None:
    assert streamed(pieces, stops) == streamed(list("".join(pieces)), stops) == cut("".join(pieces), stops)


@given(letters, stop_lists)
def test_only_what_could_begin_a_stop_string_is_held_back(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    let_out, stopped = matcher.feed(text)
    held = matcher.flush()
    assert let_out + held == text or stopped is not None
    if held:
        assert any(stop.startswith(held) and stop != held for stop in stops)


def test_the_stop_string_that_is_complete_first_wins() -> None:
    assert cut("one two three", ["three", "two"]) == ("one ", "two")
    assert cut("abcd", ["abcde", "bc"]) == ("a", "bc")


def test_of_two_complete_at_once_the_longer_wins() -> None:
    assert cut("say END", ["D", "END"]) == ("say ", "END")
