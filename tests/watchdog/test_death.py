"""What a child leaves behind."""

from __future__ import annotations

import pytest

from stoker.watchdog.death import Cause, Death


def ended(*lines: str, cause: Cause = Cause.EXITED, code: int = 78) -> Death:
    return Death.now(cause, f"exit code {code}", code, lines, ready_since=None)


def test_last_words_are_the_sentence_for_people() -> None:
    assert ended('{"event": "x"}', '{"event": "unusable", "error": "no model"}', "trailing noise").last_words() == (
        "no model"
    )


@pytest.mark.parametrize("lines", [(), ("plain", "[1]", '{"event": "x"}', "{broken")])
def test_a_child_without_last_words_is_described(lines: tuple[str, ...]) -> None:
    assert "exit code 78" in ended(*lines).last_words()


@pytest.mark.parametrize(
    ("cause", "code", "final"), [(Cause.EXITED, 78, True), (Cause.EXITED, 1, False), (Cause.REQUESTED, 78, False)]
)
def test_only_the_childs_own_word_makes_a_death_final(cause: Cause, code: int, final: bool) -> None:
    assert ended(cause=cause, code=code).final is final


def test_the_time_until_it_was_ready_again_is_counted_once() -> None:
    death = ended()
    back = death.ready_again(death.died + 2.5)
    assert back.ready_after_s == 2.5
    assert back.ready_again(death.died + 9) is back
