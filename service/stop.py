"""Stop strings in a stream: nothing that could be the beginning of one is let out before that is settled."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The text before the stop string that is complete first, and that stop string, if there is one.

    Of two that are complete at the same place the longer one wins. "Complete first" rather than "begins first" is
    what a generation that ends at once can keep to, whatever would have come after.
    """
    found = [(start + len(stop), start, stop) for stop in stops if (start := text.find(stop)) >= 0]
    if not found:
        return text, None
    _, start, stop = min(found)
    return text[:start], stop


class StopMatcher:
    """Cuts a text that arrives in pieces exactly where `cut` would cut the whole."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, piece: str) -> tuple[str, str | None]:
        """What may be let out now, and the stop string that was met, if one was (nothing may follow then)."""
        text, stopped = cut(self._held + piece, self._stops)
        if stopped is not None:
            self._held = ""
            return text, stopped
        keep = max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def flush(self) -> str:
        """What was held back, once it is known that nothing follows."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """How long the longest end of `text` is that is a beginning, but not the whole, of `stop`."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
