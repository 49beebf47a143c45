"""The one task that tells: persist, claim, deliver, in that order, so that a death at any point loses nothing.

Whoever hands in an edge never waits. A shelf that cannot be written (a database that is locked or full) holds nothing
up either: the edge goes on from memory, and is written when the shelf can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from .delivery import RETRIED, Delivery, Failed, Outcome, Result, Telling
from .edge import Edge
from .message import Origin
from .outbox import Outbox
from .quiet import Quiet
from .targets import Target

QUIET_POLL_S = 1.0
"""How late the end of a quiet period is noticed when a person ends it early."""

AFTER_FAILURE_S = 1.0

log = structlog.get_logger(__name__)

Send = Callable[[Target, str, bytes], Awaitable[Result]]


class Shelf(Protocol):
    """Where deliveries outlive the process."""

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Returns once they are kept, or once it is clear that they can only be kept later. Never fails."""

    async def left(self) -> Sequence[Delivery]:
        """What an earlier process kept and is not over, or has no end yet; returns when the shelf can be read."""


class Observer(Protocol):
    """Who counts attempts."""

    def webhook(self, outcome: str) -> None:
        """An attempt, or a delivery without one, came to this: an `Outcome`, or `retried`."""

    def webhooks_waiting(self, count: int) -> None:
        """So many are not over."""


class Courier:
    """Everything on its way. `tell` from the event loop; `run` as a task for as long as the tree lives."""

    def __init__(
        self,
        *,
        targets: Sequence[Target],
        retry_for_s: float,
        origin: Origin,
        shelf: Shelf,
        send: Send,
        quiet: Quiet,
        observer: Observer,
    ) -> None:
        self._targets = {target.name: target for target in targets}
        self._outbox = Outbox(self._targets, retry_for_s)
        self._origin = origin
        self._shelf = shelf
        self._send = send
        self._quiet = quiet
        self._observer = observer
        self._told: list[Edge] = []
        self._left: Sequence[Delivery] = ()
        self._changed = asyncio.Event()

    def snapshot(self) -> Telling:
        """Who is told, and what is on its way, for people."""
        return Telling(self._quiet.until(time.time()), tuple(self._outbox.snapshot()))

    def tell(self, edge: Edge) -> None:
        """Tell everybody who wants to hear of it, soon."""
        if self._targets:
            self._told.append(edge)
            self._changed.set()

    async def run(self) -> None:
        """Ends only by cancellation; what is under way then is sent again by the next process, with the same id."""
        if not self._targets:
            return
        async with asyncio.TaskGroup() as attempts:
            attempts.create_task(self._restore())
            while True:
                try:
                    await self._turn(attempts)
                except Exception:
                    # Whatever is wrong with telling, the tree lives on.
                    log.exception("courier_failed")
                    await asyncio.sleep(AFTER_FAILURE_S)

    async def _turn(self, attempts: asyncio.TaskGroup) -> None:
        self._changed.clear()
        await self._take_in()
        for delivery in self._due():
            attempts.create_task(self._attempt(self._outbox.claim(delivery)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), self._wait_s())

    async def _restore(self) -> None:
        try:
            self._left = await self._shelf.left()
        except Exception:
            log.exception("webhooks_left_unread")
        self._changed.set()

    async def _take_in(self) -> None:
        """Persist: what was told, and what was left by an earlier process."""
        now = time.time()
        quiet = self._quiet.until(now) is not None
        changed: list[Delivery] = []
        left, self._left = self._left, ()
        if left:
            changed += self._outbox.restore(left, now, quiet)
        told, self._told = self._told, []
        for edge in told:
            wanted = [target.name for target in self._targets.values() if target.wants(edge)]
            changed += self._outbox.accept(edge, wanted, now, quiet)
        if changed:
            await self._keep(changed)
            self._count(changed)

    def _due(self) -> list[Delivery]:
        now = time.time()
        return [] if self._quiet.until(now) is not None else self._outbox.next(now)

    def _wait_s(self) -> float | None:
        """Until something is due; None while nothing waits."""
        wakes_at = self._outbox.wakes_at()
        if wakes_at is None:
            return None
        now = time.time()
        return QUIET_POLL_S if self._quiet.until(now) is not None else max(0.0, wakes_at - now)

    async def _attempt(self, claimed: Delivery) -> None:
        """Claim, deliver, and keep what came of it."""
        await self._keep([claimed])
        try:
            target = self._targets[claimed.target]
            result = await self._send(target, claimed.id, target.body(claimed.edge, self._origin))
        except Exception as error:
            # One target's trouble must not end the telling of the others.
            log.exception("webhook_failed_unforeseen", target=claimed.target)
            result = Failed(type(error).__name__)
        changed = self._outbox.settle(claimed, result, time.time(), random.random())
        self._count(changed)
        await self._keep(changed)
        self._outbox.release(claimed.target)
        self._changed.set()

    async def _keep(self, changed: Sequence[Delivery]) -> None:
        try:
            await self._shelf.keep(changed)
        except Exception:
            # As with a shelf that is full: it goes on from memory.
            log.exception("webhooks_not_kept")

    def _count(self, changed: Sequence[Delivery]) -> None:
        self._observer.webhooks_waiting(len(self._outbox.waiting))
        for each in changed:
            if each.outcome is not None:
                self._observer.webhook(each.outcome.value)
            elif each.attempts:
                self._observer.webhook(RETRIED)
            if each.error is not None and each.outcome is not Outcome.DELIVERED:
                say = log.error if each.outcome is Outcome.DROPPED else log.warning
                say("webhook_not_delivered", target=each.target, id=each.id, attempts=each.attempts, error=each.error)
