"""Whether a text can be what a model said. Pure; what cannot be right for certain is not here."""

from __future__ import annotations

from collections.abc import Iterator

from .outcome import Finding

_UNIT_CHARS = 60
_REPEATED_CHARS = 600
"""Small models say a sentence twice or three times by themselves, and do so more often with greedy draws."""


def findings(
    text: str, completion_tokens: int | None, max_tokens: int, finish_reason: str | None
) -> tuple[Finding, ...]:
    """Everything that is wrong with a whole answer."""
    return tuple(_findings(text, completion_tokens, max_tokens, finish_reason == "length"))


def _findings(text: str, completion_tokens: int | None, max_tokens: int, cut: bool) -> Iterator[Finding]:
    if completion_tokens is not None and completion_tokens > 1 and not text:
        yield Finding.EMPTY
    if cut and completion_tokens is not None and completion_tokens != max_tokens:
        yield Finding.WRONG_COUNT
    # An answer that is cut may end within a character.
    if "\ufffd" in (text.rstrip("\ufffd") if cut else text):
        yield Finding.MOJIBAKE
    if repeats(text):
        yield Finding.REPETITION


def repeats(text: str) -> bool:
    """Whether the end is one short unit, over and over."""
    end = text[-_REPEATED_CHARS:]
    if len(end) < _REPEATED_CHARS:
        return False
    return any(end[unit:] == end[:-unit] for unit in range(1, _UNIT_CHARS + 1))
