"""One answer being written: its order in the ledger, its feed, and the transcript that makes text of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.protocol import FinishReason
from .ledger import Ledger
from .stream import Feed
from .transcript import Transcript


@dataclass(frozen=True)
class Piece:
    """More text of an answer; `finish` is set when nothing follows."""

    text: str
    finish: FinishReason | None


class Generation:
    """Reads what the engine makes of a request that is in the ledger."""

    def __init__(self, request_id: str, ledger: Ledger, feed: Feed, transcript: Transcript) -> None:
        self._id = request_id
        self._ledger = ledger
        self._feed = feed
        self._transcript = transcript

    @property
    def completion_tokens(self) -> int:
        return self._transcript.tokens

    @property
    def cached_tokens(self) -> int:
        return self._feed.cached_tokens

    async def next(self, patience_s: float) -> Piece | None:
        """The text since the last call, or None when nothing came for `patience_s`.

        Raises the `ServiceError` that ended the request.
        """
        batch = await self._feed.next(patience_s)
        if batch is None:
            return None
        text = self._transcript.add(batch.ids)
        finish = batch.finish
        if finish is not None:
            text += self._transcript.finish()
        if self._transcript.stopped:
            self._ledger.stop(self._id)
            finish = FinishReason.STOP
        return Piece(text, finish)
