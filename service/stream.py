"""Between the ledger, which never waits, and one client, which may: a bounded feed, and its relay as an SSE stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..engine.protocol import FinishReason, TokenLogprob
from .entry import Prefix
from .errors import ServiceError, SlowReader
from .timing import Times


@dataclass(frozen=True)
class Batch:
    """What came for a request since its reader last looked; `finish` is set when nothing follows.

    `logprobs` has one entry an id, for requests that asked.
    """

    ids: list[int]
    logprobs: list[TokenLogprob]
    finish: FinishReason | None


class Feed:
    """One request's events. The ledger writes it (`ledger.Receiver`) and stops when there are `bound` tokens in it,
    but for what is on its way; one task reads it."""

    def __init__(self, bound: int, on_stuck: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._bound = bound
        self._on_stuck = on_stuck
        self._ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._finish: FinishReason | None = None
        self._error: ServiceError | None = None
        self._news = asyncio.Event()
        self._clock = clock
        self.prefix: Prefix | None = None
        self.times = Times()

    def started(self, prefix: Prefix) -> None:
        self.prefix = prefix
        self.times.began_at = self.times.began_at or self._clock()
        self._news.set()

    def resumed(self) -> None:
        self.times.resumes += 1

    def tokens(self, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> bool:
        self.times.first_token_at = self.times.first_token_at or self._clock()
        self._ids.extend(ids)
        self._logprobs.extend(logprobs)
        self._news.set()
        return len(self._ids) < self._bound

    def finished(self, reason: FinishReason) -> None:
        self._finish = reason
        self.times.ended_at = self._clock()
        self._news.set()

    def failed(self, error: ServiceError) -> None:
        if isinstance(error, SlowReader):
            # The reader is stuck in a write that may never end, so it can only be told through its connection.
            self._on_stuck()
        self._error = error
        self._news.set()

    def left(self) -> None:
        """Its reader has all it wants."""
        self.times.ended_at = self._clock()

    async def next(self, patience_s: float) -> Batch | None:
        """All that is there, or what comes next; None when nothing comes for `patience_s`.

        An empty batch says that the engine has begun. Raises the `ServiceError` that ended the request, after all
        ids before it were read.
        """
        if not self._news.is_set():
            try:
                async with asyncio.timeout(patience_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        self._news.clear()
        ids, self._ids = self._ids, []
        logprobs, self._logprobs = self._logprobs, []
        if self._error is not None:
            if not ids:
                raise self._error
            self._news.set()
        return Batch(ids, logprobs, self._finish)
