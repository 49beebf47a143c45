"""A marked message to every target, both ends of it, and what came back."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

import aiohttp
import msgspec

from .delivery import Received, delivery_id
from .edge import Edge, Status
from .message import Origin
from .targets import Target
from .webhook import Sender

KIND = "test"
SUMMARY = "A test by hand. Nothing is wrong."


class Tried(msgspec.Struct, frozen=True):
    """What came of one end at one target; `refusal` is None when it was taken."""

    target: str
    status: str
    refusal: str | None
    took_s: float


async def try_all(targets: Sequence[Target], origin: Origin, timeout_s: float) -> list[Tried]:
    """The end follows the beginning, so that nothing stays open anywhere."""
    async with aiohttp.ClientSession() as http:
        sender = Sender(http, timeout_s)
        found = await asyncio.gather(*(_try(target, origin, sender) for target in targets))
    return [each for tried in found for each in tried]


async def _try(target: Target, origin: Origin, sender: Sender) -> list[Tried]:
    incident, now, tried = uuid.uuid4().hex, time.time(), []
    for status in (Status.FIRING, Status.RESOLVED):
        edge = Edge(incident, KIND, status, now, time.time(), SUMMARY, test=True)
        began = time.monotonic()
        result = await sender.send(target, delivery_id(incident, status, target.name), target.body(edge, origin))
        took_s = time.monotonic() - began
        refusal = None if isinstance(result, Received) else result.why
        tried.append(Tried(target.name, status.value, refusal, took_s))
        if refusal is not None:
            break
    return tried
