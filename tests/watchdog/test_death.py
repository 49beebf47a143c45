"""What a child leaves behind."""

from __future__ import annotations

import pytest

from stoker.watchdog.death import Cause, Death, explanation


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


NATIVE = (
    '{"event": "serving", "level": "info"}',
    "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer failed",
    "Fatal Python error: Aborted",
    "Thread 0x1 (most recent call first):",
    "Extension modules: mlx.core (total: 1)",
)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), None),
        (('{"event": "serving", "level": "info"}',), None),
        (('{"level": "error", "event": "step_thread_failed", "error": "RuntimeError: boom"}',), "RuntimeError: boom"),
        (("Traceback (most recent call last):", '  File "x.py"', "ValueError: no"), "ValueError: no"),
        (NATIVE, NATIVE[1]),
        (NATIVE[:1] + NATIVE[2:], NATIVE[2]),
        (("x" * 1000,), "x" * 299 + "…"),
    ],
)
def test_what_a_process_says_about_its_end_is_found(lines: tuple[str, ...], words: str | None) -> None:
    assert explanation(lines) == words


@pytest.mark.parametrize(
    ("code", "reason"),
    [(70, "exit code 70: boom"), (-6, "killed by SIGABRT: boom"), (-9, "killed by SIGKILL"), (0, "exit code 0")],
)
def test_a_death_is_explained_unless_it_came_from_outside(code: int, reason: str) -> None:
    assert Death.of(code, ("boom",), ready_since=None).reason == reason
