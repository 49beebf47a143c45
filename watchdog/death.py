"""How an incarnation of a child ended, and what it said last."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from ..process import EXIT_UNUSABLE
from .child import exit_in_words

MAX_WORDS_LENGTH = 300


class Cause(StrEnum):
    """Why an incarnation ended, in few enough words for a metric's label."""

    KILLED = "killed"
    EXITED = "exited"
    NOT_READY = "not_ready"
    NOT_STARTED = "not_started"
    REQUESTED = "requested"
    STALLED = "stalled"


@dataclass(frozen=True)
class Death:
    """The end of one incarnation."""

    cause: Cause
    reason: str
    """For people: `killed by SIGKILL`, `not ready within 900 s`."""
    exit_code: int | None
    """Negative for a signal; None when there was no process."""
    log_tail: tuple[str, ...]
    ready_for_s: float
    """How long it had been ready; 0 when it never was."""
    at: datetime
    died: float
    """The same moment as `at`, on the monotonic clock."""
    ready_after_s: float | None = None
    """From this death until the child was ready again; None while it is not."""

    @classmethod
    def now(
        cls, cause: Cause, reason: str, exit_code: int | None, log_tail: tuple[str, ...], ready_since: float | None
    ) -> Death:
        died = time.monotonic()
        ready_for_s = 0.0 if ready_since is None else died - ready_since
        return cls(cause, reason, exit_code, log_tail, ready_for_s, at=datetime.now(UTC), died=died)

    @classmethod
    def of(cls, code: int, log_tail: tuple[str, ...], ready_since: float | None) -> Death:
        """The end of a process that nobody here wanted, with what it said about it."""
        reason = exit_in_words(code)
        # Who is killed from outside, or ends as if nothing were wrong, leaves no words about it.
        words = None if code in {0, -signal.SIGKILL} else explanation(log_tail)
        if words is not None:
            reason += f": {words}"
        return cls.now(Cause.KILLED if code < 0 else Cause.EXITED, reason, code, log_tail, ready_since)

    @property
    def final(self) -> bool:
        """The child itself says that no restart will help it."""
        return self.cause is Cause.EXITED and self.exit_code == EXIT_UNUSABLE

    def ready_again(self, now: float) -> Death:
        """The same death, now that the child takes work again."""
        return self if self.ready_after_s is not None else dataclasses.replace(self, ready_after_s=now - self.died)

    def last_words(self) -> str:
        """The sentence that a child leaves for people when its death is final."""
        for line in reversed(self.log_tail):
            record = _json_object(line)
            if record.get("event") == "unusable":
                return str(record.get("error"))
        return f"it ended with {self.reason}, which means that no restart will help, but not why"


def explanation(lines: tuple[str, ...]) -> str | None:
    """What the last lines of a process say about its end, None when they say nothing.

    A native abort says why right before the interpreter's `Fatal Python error`, a log line in its `error`, and an
    uncaught exception in the last line.
    """
    said = None
    for before, line in pairwise(("", *lines)):
        record = _json_object(line)
        if line.startswith("Fatal Python error"):
            return _short(before if before and not _json_object(before) else line)
        if record.get("level") in {"error", "critical"} and "error" in record:
            said = str(record["error"])
        elif not record and line.strip():
            said = line.strip()
    return None if said is None else _short(said)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_WORDS_LENGTH else text[: MAX_WORDS_LENGTH - 1] + "…"


def _json_object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
