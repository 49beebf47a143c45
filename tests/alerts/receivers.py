"""Receivers of webhooks for tests: a real server that answers as it is told, and couriers that tell nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from standardwebhooks.webhooks import Webhook

from stoker.alerts.courier import Courier, Observer, Shelf
from stoker.alerts.delivery import Result, Unwanted
from stoker.alerts.message import Origin
from stoker.alerts.quiet import Quiet
from stoker.alerts.severity import Severity
from stoker.alerts.targets import Target
from stoker.watchdog.ports import ListeningSocket

ORIGIN = Origin("box:8001", "http://127.0.0.1:8001")


async def _refuse(target: Target, message_id: str, body: bytes) -> Result:
    return Unwanted("nobody is there")


def nobody(shelf: Shelf, observer: Observer) -> Courier:
    """A courier without targets."""
    return Courier(
        targets=(),
        retry_for_s=1.0,
        origin=ORIGIN,
        shelf=shelf,
        send=_refuse,
        quiet=Quiet(Path("/nowhere"), ()),
        observer=observer,
    )


@dataclass
class Got:
    """One message as it came in."""

    id: str
    body: Any
    raw: bytes
    headers: dict[str, str]
    where: str
    """The path that it came to."""

    @property
    def status(self) -> str:
        return str(self.body["status"])


Answer = Callable[[web.Request], web.StreamResponse]


def ok(request: web.Request) -> web.StreamResponse:
    return web.Response()


@dataclass
class Receiver:
    """`answers` are given in turn, the last one for ever."""

    url: str
    answers: list[Answer]
    got: list[Got] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, count: int) -> list[Got]:
        """What it has got, once that is so many."""
        while len(self.got) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.got

    async def take(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.json() if raw else None
        self.got.append(Got(headers.get("webhook-id", ""), body, raw, headers, request.match_info["where"]))
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        self.changed.set()
        return answer(request)


@contextlib.asynccontextmanager
async def receiving(*answers: Answer, port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver on loopback for as long as the block runs."""
    listening = ListeningSocket("127.0.0.1", port, "")
    waiting = listening.open()
    receiver = Receiver(f"{listening.url}/hook", list(answers) or [ok])
    app = web.Application()
    app.router.add_post("/{where}", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, waiting).start()
    try:
        yield receiver
    finally:
        await runner.cleanup()
        listening.close()


KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def target_at(url: str, name: str = "ops") -> Target:
    """A target that hears of everything, signed and with a token."""
    return Target(
        name=name,
        url=url,
        template=None,
        severities=frozenset(Severity),
        kinds=frozenset(),
        signer=Webhook(KEY),
        bearer_token="t0ken",
        values={"topic": "secret value"},
    )


def failing(status: int, **headers: str) -> Answer:
    """An answer with this status; `Retry_After` is the header of that name."""

    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer
