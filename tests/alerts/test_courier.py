"""The courier with real receivers: down, slow, failing, gone, resetting; and with a shelf that cannot be written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from stoker.alerts import backoff
from stoker.alerts import courier as module
from stoker.alerts.courier import Courier
from stoker.alerts.delivery import Delivery, Outcome
from stoker.alerts.edge import Status
from stoker.alerts.quiet import Quiet, Silence, write
from stoker.alerts.webhook import Sender
from tests.alerts.edges import BEGAN, OVER, edge
from tests.alerts.receivers import ORIGIN, Receiver, failing, ok, receiving, target_at

DEADLINE_S = 30.0
FOR_EVER = 4e9


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_S", 0.01)
    monkeypatch.setattr(backoff, "PROBE_FIRST_S", 0.01)
    monkeypatch.setattr(module, "QUIET_POLL_S", 0.01)


class Memory:
    """A shelf, and who counts."""

    def __init__(self) -> None:
        self.kept: dict[str, Delivery] = {}
        self.counts: dict[str, int] = {}
        self.waiting = 0
        self.changed = asyncio.Event()

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        self.kept.update({delivery.id: delivery for delivery in deliveries})
        self.changed.set()

    async def left(self) -> Sequence[Delivery]:
        return ()

    def webhook(self, outcome: str) -> None:
        self.counts[outcome] = self.counts.get(outcome, 0) + 1

    def webhooks_waiting(self, count: int) -> None:
        self.waiting = count

    async def until_ended(self, count: int) -> list[Outcome]:
        while True:
            ended = [each.outcome for each in self.kept.values() if each.outcome is not None]
            if len(ended) >= count:
                return ended
            self.changed.clear()
            await self.changed.wait()


@contextlib.asynccontextmanager
async def courier_to(
    *receivers: Receiver, memory: Memory, home: Path, timeout_s: float = 5.0
) -> AsyncIterator[Courier]:
    async with asyncio.timeout(DEADLINE_S), aiohttp.ClientSession() as http:
        courier = Courier(
            targets=[target_at(receiver.url, f"ops{number}") for number, receiver in enumerate(receivers)],
            retry_for_s=3600.0,
            origin=ORIGIN,
            shelf=memory,
            send=Sender(http, timeout_s).send,
            quiet=Quiet(home / "quiet.json", ()),
            observer=memory,
        )
        task = asyncio.create_task(courier.run())
        try:
            yield courier
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def drop(request: web.Request) -> web.StreamResponse:
    """Reset the connection after the body."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    "answers",
    [
        (failing(500), failing(503), ok),
        (failing(429, Retry_After="0"), ok),
        (drop, ok),
        (failing(500),) * 7 + (ok,),
    ],
    ids=["500", "429", "reset", "circuit"],
)
async def test_what_fails_for_now_is_sent_again_in_order_and_with_the_same_id(
    tmp_path: Path, answers: tuple[object, ...]
) -> None:
    memory = Memory()
    async with receiving(*answers) as receiver, courier_to(receiver, memory=memory, home=tmp_path) as courier:  # type: ignore[arg-type]  # parametrize gives objects
        courier.tell(BEGAN)
        courier.tell(OVER)
        got = await receiver.until(len(answers) + 1)
        await memory.until_ended(2)
    assert [each.status for each in got] == ["firing"] * len(answers) + ["resolved"]
    assert len({each.id for each in got[:-1]}) == 1
    assert memory.counts == {"retried": len(answers) - 1, "delivered": 2}
    assert memory.waiting == 0


async def test_what_is_not_wanted_is_dropped_and_counted(tmp_path: Path) -> None:
    memory = Memory()
    async with receiving(failing(410)) as receiver, courier_to(receiver, memory=memory, home=tmp_path) as courier:
        courier.tell(BEGAN)
        courier.tell(OVER)
        assert await memory.until_ended(2) == [Outcome.DROPPED] * 2
        assert courier.snapshot().targets[0].gone
    assert len(receiver.got) == 1


async def test_a_receiver_that_is_down_gets_everything_when_it_is_back(tmp_path: Path) -> None:
    memory = Memory()
    async with receiving() as receiver:
        port = int(receiver.url.split(":")[2].split("/")[0])
    async with courier_to(receiver, memory=memory, home=tmp_path) as courier:
        courier.tell(BEGAN)
        courier.tell(edge("i2", Status.FIRING, 120.0))
        while memory.counts.get("retried", 0) < 3:
            memory.changed.clear()
            await memory.changed.wait()
        async with receiving(port=port) as back:
            await back.until(2)
            assert {each.body["groupLabels"]["incident"] for each in back.got} == {"i1", "i2"}


async def test_a_slow_receiver_is_given_up_for_now_and_holds_nobody_up(tmp_path: Path) -> None:
    memory = Memory()

    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(DEADLINE_S)
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stuck = Receiver(f"http://127.0.0.1:{runner.addresses[0][1]}/hook", [ok])
    async with receiving() as quick, courier_to(stuck, quick, memory=memory, home=tmp_path, timeout_s=0.2) as courier:
        courier.tell(BEGAN)
        courier.tell(OVER)
        assert [each.status for each in await quick.until(2)] == ["firing", "resolved"]
        while memory.counts.get("retried", 0) < 1:
            memory.changed.clear()
            await memory.changed.wait()
    assert memory.kept["stoker_i1_firing_ops0"].error == "no answer within 0.2 s"
    await runner.cleanup()


async def test_a_quiet_period_holds_back_and_its_end_lets_go(tmp_path: Path) -> None:
    memory = Memory()
    write(tmp_path / "quiet.json", Silence(FOR_EVER))
    async with receiving() as receiver, courier_to(receiver, memory=memory, home=tmp_path) as courier:
        courier.tell(BEGAN)
        courier.tell(OVER)
        courier.tell(edge("i2", Status.FIRING, 120.0))
        assert await memory.until_ended(2) == [Outcome.SILENCED] * 2
        assert (courier.snapshot().quiet_until, receiver.got) == (FOR_EVER, [])
        write(tmp_path / "quiet.json", Silence(0.0))
        (got,) = await receiver.until(1)
    assert got.body["groupLabels"]["incident"] == "i2"


async def test_a_shelf_that_fails_keeps_nobody_from_being_told(tmp_path: Path) -> None:
    class Broken(Memory):
        """Fails in a way that nobody foresaw."""

        async def keep(self, deliveries: Sequence[Delivery]) -> None:
            raise RuntimeError("no such driver")

        async def left(self) -> Sequence[Delivery]:
            raise RuntimeError("no such driver")

    memory = Broken()
    async with receiving() as receiver, courier_to(receiver, memory=memory, home=tmp_path) as courier:
        courier.tell(BEGAN)
        courier.tell(OVER)
        assert [each.status for each in await receiver.until(2)] == ["firing", "resolved"]


async def test_an_edge_goes_on_from_memory_while_nothing_can_be_kept(tmp_path: Path) -> None:
    class Full(Memory):
        """A shelf that finds nothing and keeps nothing, and says so late."""

        async def keep(self, deliveries: Sequence[Delivery]) -> None:
            await asyncio.sleep(0)

        async def left(self) -> Sequence[Delivery]:
            await asyncio.Event().wait()
            return ()

    memory = Full()
    async with receiving() as receiver, courier_to(receiver, memory=memory, home=tmp_path) as courier:
        courier.tell(BEGAN)
        courier.tell(OVER)
        assert [each.status for each in await receiver.until(2)] == ["firing", "resolved"]
