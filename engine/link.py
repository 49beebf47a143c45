"""What passes between the engine's two threads: commands in, events and cached readings out.

The I/O thread (`server`) owns the sockets; the step thread (`loop`) owns the model. Neither waits for the other:
commands go through a queue, events through the I/O thread's event loop, and readings are replaced whole.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .protocol import Decoding, DraftMethod, Drafts, Limits, Memory, PrefixCacheUse, RequestEvent, ToEngine

Owner = int
"""A connection; requests belong to the one that submitted them."""


@dataclass(frozen=True, slots=True)
class Command:
    """A word from a connection."""

    owner: Owner
    word: ToEngine


@dataclass(frozen=True, slots=True)
class OwnerGone:
    """A connection ended: its requests have nobody left to answer to."""

    owner: Owner


@dataclass(frozen=True, slots=True)
class Finish:
    """Take nothing new, and end the loop when nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the loop after the current step."""


Inbound = Command | OwnerGone | Finish | Stop


@dataclass(frozen=True, slots=True)
class Reading:
    """What the step thread last said about itself.

    `progress_at`, on the monotonic clock in seconds, is when its last step ended or, if later, when work reached it
    while it was idle; None while the model loads. The rest is as in `protocol.Heartbeat`.
    """

    steps: int = 0
    progress_at: float | None = None
    running: int = 0
    waiting: int = 0
    busy_s: float = 0.0
    computed_tokens: int = 0
    step_tokens: int = 0
    memory: Memory = field(default_factory=Memory)
    prefix_cache: PrefixCacheUse = field(default_factory=PrefixCacheUse)
    drafts: dict[DraftMethod, Drafts] = field(default_factory=dict)
    preemptions: int = 0
    decoding: Decoding = field(default_factory=Decoding)
    generated_tokens: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class OwnedEvent:
    """An event and the connection it is for."""

    owner: Owner
    event: RequestEvent


class Link:
    """The step thread's end. What it is made of is called on it and must hand over to the I/O thread."""

    def __init__(
        self,
        deliver: Callable[[Sequence[OwnedEvent]], None],
        announce: Callable[[str, Limits], None],
        reclaimed: Callable[[Owner, int, int], None],
    ) -> None:
        self._inbox: queue.SimpleQueue[Inbound] = queue.SimpleQueue()
        self._deliver = deliver
        self._announce = announce
        self._reclaimed = reclaimed
        self.reading = Reading()

    def put(self, inbound: Inbound) -> None:
        """Called by the I/O thread."""
        self._inbox.put(inbound)

    def receive(self, wait: bool) -> list[Inbound]:
        """Everything that has arrived; with `wait`, blocks until there is something."""
        arrived = [self._inbox.get()] if wait else []
        while True:
            try:
                arrived.append(self._inbox.get_nowait())
            except queue.Empty:
                return arrived

    def ready(self, model: str, limits: Limits) -> None:
        """The model is loaded."""
        self._announce(model, limits)

    def reclaimed(self, owner: Owner, level: int, freed_bytes: int) -> None:
        """What one connection asked for is done."""
        self._reclaimed(owner, level, freed_bytes)

    def send(self, events: Sequence[OwnedEvent]) -> None:
        """Hand one step's events over."""
        if events:
            self._deliver(events)
