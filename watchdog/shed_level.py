"""The shed level as an effect: what is wanted, and how the service comes to know it.

Whoever decides calls `want` and goes on at once; `run` brings it to the service, again whenever a new service is ready
and until it is taken. Nothing of the tree waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import msgspec
import structlog

from .supervisor import State, Supervisor, running

TELL_TIMEOUT_S = 2.0
TELL_AGAIN_S = 1.0

log = structlog.get_logger(__name__)


class Shed(msgspec.Struct, frozen=True):
    """What the service is told, in the words of its `PUT /internal/shed`."""

    level: int
    reason: str


NOTHING = Shed(0, "nothing is short")
EVERYTHING_NEW = 3


class ShedLevel:
    """The one writer of the service's shed level. Run `run` as a task for as long as the tree lives."""

    def __init__(
        self,
        service: Supervisor,
        service_url: Callable[[], str],
        admin_token: str,
        http: aiohttp.ClientSession,
        on_level: Callable[[int], None],
    ) -> None:
        """`on_level` hears every new level, for the metrics."""
        self._service = service
        self._service_url = service_url
        self._headers = {"Authorization": f"Bearer {admin_token}"}
        self._http = http
        self._on_level = on_level
        self._changed = asyncio.Event()
        self._decided = self._wanted = NOTHING
        self._drained: Shed | None = None
        on_level(0)

    @property
    def wanted(self) -> Shed:
        return self._wanted

    def want(self, level: int, reason: str) -> None:
        """So much is to be turned away from now on, 0 (nothing) to 3 (everything new)."""
        self._decided = Shed(level, reason)
        self._settle()

    def drain(self, reason: str) -> None:
        """Turn everything new away, whatever else is wanted, until `resume`."""
        self._drained = Shed(EVERYTHING_NEW, reason)
        self._settle()

    def resume(self) -> None:
        """What was wanted last counts again."""
        self._drained = None
        self._settle()

    def _settle(self) -> None:
        wanted = self._drained or self._decided
        if wanted == self._wanted:
            return
        log.warning("shed_level", level=wanted.level, was=self._wanted.level, reason=wanted.reason)
        self._wanted = wanted
        self._on_level(wanted.level)
        self._changed.set()

    async def run(self) -> None:
        """Ends only by cancellation."""
        while True:
            await self._service.until(State.READY)
            gone = self._service.until(*set(State) - {State.READY})
            async with running(gone, self._tell_one_service()) as tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _tell_one_service(self) -> None:
        """Whatever is wanted, for as long as this service lives; at first it knows nothing."""
        told = None
        while True:
            self._changed.clear()
            if told == self._wanted:
                await self._changed.wait()
            elif await self._tell(wanted := self._wanted):
                told = wanted
            else:
                await asyncio.sleep(TELL_AGAIN_S)

    async def _tell(self, wanted: Shed) -> bool:
        url = f"{self._service_url()}/internal/shed"
        timeout = aiohttp.ClientTimeout(total=TELL_TIMEOUT_S)
        body = msgspec.json.encode(wanted)
        try:
            async with self._http.put(url, data=body, headers=self._headers, timeout=timeout) as response:
                if response.status == 200:
                    return True
                problem = f"HTTP status {response.status}: {await response.text()}"
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        log.warning("shed_level_not_told", level=wanted.level, problem=problem)
        return False
