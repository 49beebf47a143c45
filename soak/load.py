"""The load client: asks a target what a workload says, when it says so, and tells what became of every request.

In an open loop a conversation begins at its time, however many others still run, and latency counts from that time:
a server that stalls is charged for everyone who would have come meanwhile (no coordinated omission, Gil Tene).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from .exchange import Exchange, Request, session
from .lag import Lag, Probe
from .outcome import Outcome
from .target import Target
from .workloads.conversation import Conversation, Message, Workload

DEADLINE_S = 900.0
FAILED_PAUSE_S = 1.0
"""After a failure in a closed loop: a server that refuses at once is not asked a thousand times a second."""
_NOTHING_SAID = "(nothing)"
"""Stands for an empty answer in a conversation: some chat templates refuse an empty message."""


async def drive(
    target: Target,
    workload: Workload,
    *,
    on_outcome: Callable[[Outcome], None],
    until: float | None = None,
    clock: Callable[[], float] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Lag:
    """Until the workload ends, or nothing new begins because the clock says `until`; then what runs is finished.

    `clock` gives seconds of the run, in which conversations begin and outcomes are told; without one they count from
    now. Cancel it to cut what runs. Returns by how much the client itself was late.
    """
    began = time.monotonic()
    now = clock or (lambda: time.monotonic() - began)
    async with session() as http:
        driver = _Driver(Exchange(http, target, now, deadline_s), now, until, on_outcome)
        probe = Probe()
        probing = asyncio.create_task(probe.run())
        try:
            if workload.streams is None:
                await driver.open_loop(workload.conversations())
            else:
                await driver.closed_loop(workload.conversations(), workload.streams)
        finally:
            probing.cancel()
        return probe.lag()


class _Driver:
    def __init__(
        self,
        exchange: Exchange,
        now: Callable[[], float],
        until: float | None,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self._exchange = exchange
        self._now = now
        self._until = float("inf") if until is None else until
        self._on_outcome = on_outcome

    async def open_loop(self, conversations: Iterator[Conversation]) -> None:
        """Each at its own time."""
        async with asyncio.TaskGroup() as group:
            for conversation in conversations:
                at = conversation.at or 0.0
                if at >= self._until:
                    break
                await self._sleep_until(at)
                group.create_task(self._hold(conversation, at))

    async def closed_loop(self, conversations: Iterator[Conversation], streams: int) -> None:
        """So many at once."""
        async with asyncio.TaskGroup() as group:
            for _ in range(streams):
                group.create_task(self._follow_each_other(conversations))

    async def _follow_each_other(self, conversations: Iterator[Conversation]) -> None:
        # One iterator for all streams: the next conversation goes to whichever is free.
        for conversation in conversations:
            if self._now() >= self._until:
                return
            if not await self._hold(conversation, self._now()):
                await asyncio.sleep(FAILED_PAUSE_S)

    async def _hold(self, conversation: Conversation, intended: float) -> bool:
        """All its turns; one that fails is the last. Returns whether none did."""
        messages: list[Message] = []
        for number, turn in enumerate(conversation.turns):
            if number:
                intended = self._now() + turn.pause_s
                if intended >= self._until:
                    return True
                await self._sleep_until(intended)
            messages.extend(turn.adds)
            outcome, text = await self._exchange.ask(Request(conversation, number, messages, intended))
            self._on_outcome(outcome)
            if not outcome.ok:
                return False
            messages.append(Message("assistant", text or _NOTHING_SAID))
        return True

    async def _sleep_until(self, at: float) -> None:
        # The run's clock may not be the loop's, so what is left is asked again.
        while (left := at - self._now()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
