"""The text of one request as its client sees it: detokenized, and cut at the first stop string."""

from __future__ import annotations

from collections.abc import Sequence

from .stop import StopMatcher
from .text import Detokenizer


class Transcript:
    """Takes output ids, gives text. `tokens` counts the ids it used; once `stopped`, it takes no more."""

    def __init__(self, detokenizer: Detokenizer, stops: Sequence[str]) -> None:
        self._detokenizer = detokenizer
        self._matcher = StopMatcher(stops)
        self.tokens = 0
        self.stopped = False

    def add(self, ids: Sequence[int]) -> str:
        """The text that these ids let out."""
        pieces: list[str] = []
        for token in ids:
            self.tokens += 1
            pieces.append(self._match(self._detokenizer.add(token)))
            if self.stopped:
                break
        return "".join(pieces)

    def finish(self) -> str:
        """The rest, once no more ids follow."""
        if self.stopped:
            return ""
        text = self._match(self._detokenizer.finish())
        return text if self.stopped else text + self._matcher.flush()

    def _match(self, piece: str) -> str:
        text, self.stopped = self._matcher.feed(piece)
        return text
