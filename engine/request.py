"""One request inside the engine, from its submission to its end: what happened to it, and the words about it."""

from __future__ import annotations

from dataclasses import dataclass

from .batch import NOTHING_FOUND, Found, Sampled
from .link import Owner
from .protocol import FinishReason, Prefill, Submit, Timings, Tokens


@dataclass(slots=True)
class Request:
    """A request that was taken. Times are on the monotonic clock, in seconds."""

    owner: Owner
    submit: Submit
    arrived_at: float
    _admitted_at: float | None = None
    _prefilled_at: float | None = None
    _found: Found = NOTHING_FOUND
    _drawn: int = 0
    """Tokens handed out in this incarnation."""
    _chunks: int = 0
    _drafted: int = 0
    _accepted: int = 0

    @property
    def known(self) -> int:
        """Tokens of the sequence it came with."""
        return len(self.submit.prompt) + len(self.submit.emitted)

    @property
    def position(self) -> int:
        """Of its next token in the whole output."""
        return len(self.submit.emitted) + self._drawn

    @property
    def begun(self) -> bool:
        """It has run before, be it that it was preempted since."""
        return self._admitted_at is not None

    def admitted(self, found: Found, now: float) -> Prefill | None:
        """It runs from now on, and this much of its sequence was known already.

        Once it has drawn, what is computed again after a preemption is nobody's progress.
        """
        if self._drawn:
            return None
        if not self.begun:
            self._admitted_at = now
        self._found = found
        return self._prefill(found.tokens)

    def computed(self, done: int, now: float) -> Prefill | None:
        """The first `done` tokens of its sequence are in the KV cache."""
        if self._drawn:
            return None
        self._chunks += 1
        if done == self.known:
            self._prefilled_at = now
        return self._prefill(done)

    def take(self, sampled: Sampled) -> tuple[Tokens | None, FinishReason | None]:
        """What is to be said of these new tokens, and whether they end it; nothing after a stop id counts."""
        self._drafted += sampled.drafted
        self._accepted += sampled.accepted
        stops = self.submit.stop_ids
        count = next((i for i, token in enumerate(sampled.tokens) if token in stops), len(sampled.tokens))
        tokens = None
        if count:
            logprobs = sampled.logprobs[:count] if sampled.logprobs is not None else None
            tokens = Tokens(self.submit.id, self.position, sampled.tokens[:count], logprobs)
            self._drawn += count
        if sampled.failure is not None:
            return tokens, FinishReason.GRAMMAR_FAILED
        if count < len(sampled.tokens):
            return tokens, FinishReason.STOP
        return tokens, FinishReason.LENGTH if self.position == self.submit.max_tokens else None

    def timings(self, now: float) -> Timings:
        """Where its time went until now."""
        admitted_at = self._admitted_at if self._admitted_at is not None else now
        prefilled_at = self._prefilled_at if self._prefilled_at is not None else admitted_at
        return Timings(
            queue_s=admitted_at - self.arrived_at,
            prefill_s=prefilled_at - admitted_at,
            decode_s=now - prefilled_at,
            computed_tokens=self.known - self._found.tokens if self._prefilled_at is not None else 0,
            prefill_chunks=self._chunks,
            drafted=self._drafted,
            accepted=self._accepted,
        )

    def _prefill(self, done: int) -> Prefill:
        found = self._found
        return Prefill(
            self.submit.id,
            done=done,
            total=self.known,
            cached=found.tokens,
            tier=found.tier,
            miss=found.miss,
            diverged_at=found.diverged_at,
            from_disk=found.from_disk,
        )
