"""A process that tells one incident's two ends and dies by SIGKILL at the step that it is given; see `test_killed`.

Run as `python -m tests.alerts.die_between_steps DATABASE URL`; each line of standard input is a step to die at in a
process forked for it, or -1 to live until everything is delivered. The answer is the exit code, and how many steps
there were in a life without a death.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp

import stoker.watchdog.journal.store  # noqa: F401  # loaded once, before the forks
from stoker.alerts.courier import Courier
from stoker.alerts.delivery import Delivery, Result
from stoker.alerts.edge import Edge, Status
from stoker.alerts.quiet import Quiet
from stoker.alerts.targets import Target
from stoker.alerts.webhook import Sender
from stoker.watchdog.journal.journal import Journal, Retention
from stoker.watchdog.journal.shelf import JournalShelf
from tests.alerts.receivers import ORIGIN, target_at
from tests.watchdog.journal.records import url_of

ENDS = 2
DEADLINE_S = 30.0


class Listener:
    """The journal must not fail here."""

    def journal_failed(self, sentence: str) -> None:
        raise AssertionError(sentence)

    def journal_recovered(self) -> None:
        """It never failed."""


class Steps:
    """Shelf, sender and observer that count every step before and after it, and die at one."""

    def __init__(self, shelf: JournalShelf, sender: Sender, dies_at: int) -> None:
        self._shelf = shelf
        self._sender = sender
        self._dies_at = dies_at
        self.steps = 0
        self.over = 0
        self.changed = asyncio.Event()

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        self._step()
        await self._shelf.keep(deliveries)
        self._step()
        self.over += sum(each.outcome is not None for each in deliveries)
        self.changed.set()

    async def left(self) -> Sequence[Delivery]:
        return await self._shelf.left()

    async def send(self, target: Target, message_id: str, body: bytes) -> Result:
        self._step()
        result = await self._sender.send(target, message_id, body)
        self._step()
        return result

    def webhook(self, outcome: str) -> None:
        """Not counted here."""

    def webhooks_waiting(self, count: int) -> None:
        """Nor this."""

    def _step(self) -> None:
        if self.steps == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


async def live(database: Path, url: str, dies_at: int, incident: str) -> int:
    """Tell, until both ends are delivered; without an incident, deliver what is left. Returns the steps in all."""
    async with asyncio.timeout(DEADLINE_S), aiohttp.ClientSession() as http:
        journal = Journal(url_of(database), Retention(60.0, 3600.0), Listener())
        steps = Steps(JournalShelf(journal), Sender(http, 5.0), dies_at)
        courier = Courier(
            targets=[target_at(url)],
            retry_for_s=60.0,
            origin=ORIGIN,
            shelf=steps,
            send=steps.send,
            quiet=Quiet(database.with_name("quiet.json"), ()),
            observer=steps,
        )
        tasks = [asyncio.create_task(journal.run()), asyncio.create_task(courier.run())]
        now = time.time()
        if incident:
            courier.tell(Edge(incident, "leak", Status.FIRING, now, now, "it leaks"))
            await _until(steps, 1)
            courier.tell(Edge(incident, "leak", Status.RESOLVED, now, time.time(), "it leaks"))
            await _until(steps, ENDS)
        else:
            await _until(steps, _still_to_come(await steps.left()))
        tasks[1].cancel()
        journal.stop()
        await tasks[0]
        return steps.steps


def _still_to_come(left: Sequence[Delivery]) -> int:
    """What is not over, and the ends that nobody saw."""
    begun = {each.edge.incident for each in left if each.edge.status is Status.FIRING}
    ended = {each.edge.incident for each in left if each.edge.status is Status.RESOLVED}
    return sum(each.outcome is None for each in left) + len(begun - ended)


async def _until(steps: Steps, over: int) -> None:
    while steps.over < over:
        steps.changed.clear()
        await steps.changed.wait()


def main() -> None:
    database, url = Path(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        incident, dies_at = line.split()
        pid = os.fork()
        if pid == 0:
            os._exit(asyncio.run(live(database, url, int(dies_at), incident.strip("-"))))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
