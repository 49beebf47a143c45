"""Stop strings in a stream: nothing that could be the beginning of one is let out before that is settled."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text before the stop string that is complete first, and whether there is one.

    Of two that are complete at the same place the longer one wins. "Complete first" rather than "begins first" is
    what a generation that ends at once can keep to, whatever would have come after.
    """
    found = [(start + len(stop), start) for stop in stops if (start := text.find(stop)) >= 0]
    if not found:
        return text, False
    return text[: min(found)[1]], True


class StopMatcher:
    """Cuts a text that arrives in pieces exactly where `cut` would cut the whole."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, piece: str) -> tuple[str, bool]:
        """What may be let out now, and whether a stop string was met (nothing may follow then)."""
        text, stopped = cut(self._held + piece, self._stops)
        if stopped:
            self._held = ""
            return text, True
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """What was held back, once it is known that nothing follows."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How long the longest end of `text` is that is a beginning, but not the whole, of `stop`."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
