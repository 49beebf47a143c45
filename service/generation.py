"""One answer being written: its order in the ledger, its feed, and the transcript that makes segments of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.protocol import FinishReason, TokenLogprob
from .entry import Prefix
from .ledger import Ledger
from .segments import Segment
from .stream import Feed
from .timing import Times
from .transcript import Transcript


@dataclass(frozen=True)
class Scored:
    """A token with its log probabilities."""

    id: int
    scores: TokenLogprob


@dataclass(frozen=True)
class Piece:
    """More of an answer; `finish` is set when nothing follows. `scored` has the tokens of requests that asked."""

    segments: list[Segment]
    scored: list[Scored]
    finish: FinishReason | None


class Generation:
    """Reads what the engine makes of a request that is in the ledger."""

    def __init__(self, request_id: str, ledger: Ledger, feed: Feed, transcript: Transcript) -> None:
        self._id = request_id
        self._ledger = ledger
        self._feed = feed
        self.transcript = transcript

    @property
    def prefix(self) -> Prefix | None:
        """What was cached of the prompt; None until the engine has begun."""
        return self._feed.prefix

    @property
    def times(self) -> Times:
        return self._feed.times

    async def next(self, patience_s: float) -> Piece | None:
        """What came since the last call, or None when nothing came for `patience_s`.

        Raises the `ServiceError` that ended the request.
        """
        batch = await self._feed.next(patience_s)
        if batch is None:
            return None
        self._ledger.caught_up(self._id)
        used_before = self.transcript.tokens
        segments = self.transcript.add(batch.ids)
        # Log probabilities of what came after the end would be of text that nobody sees.
        used = self.transcript.tokens - used_before
        scored = [Scored(*pair) for pair in zip(batch.ids[:used], batch.logprobs[:used], strict=False)]
        finish = batch.finish
        if finish is not None:
            segments += self.transcript.finish()
        if self.transcript.done:
            self._ledger.stop(self._id)
            self._feed.left()
            finish = FinishReason.STOP
        return Piece(segments, scored, finish)
