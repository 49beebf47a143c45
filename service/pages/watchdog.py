"""What the watchdog says, as much of it as the page shows: no line of a log, nothing of the machine's paths."""

from __future__ import annotations

from typing import Any, TypeVar

import aiohttp
import msgspec

WINDOW_S = 72 * 3600
PIECES = 144
TIMEOUT_S = 2.0
MAX_INCIDENTS = 100

T = TypeVar("T")


class Restart(msgspec.Struct, frozen=True):
    """The last death of a child."""

    reason: str
    at: str
    ready_after_s: float | None


class Child(msgspec.Struct, frozen=True):
    """An engine or the service."""

    state: str
    restarts: int
    last_restart: Restart | None
    failure: str | None
    name: str = "service"
    epoch: int | None = None


class Shed(msgspec.Struct, frozen=True):
    """How much is turned away, and why."""

    level: int
    reason: str


class Tree(msgspec.Struct, frozen=True):
    """The watchdog's `/status`."""

    ready: bool
    version: str
    started_at: str
    engines: list[Child]
    service: Child
    shed: Shed


class Host(msgspec.Struct, frozen=True, omit_defaults=True):
    """The machine; what it does not tell is absent."""

    memory_bytes: int | None = None
    available_bytes: int | None = None
    pressure_level: int | None = None
    pressure_some_share: float | None = None
    swap_bytes: int | None = None
    swap_used_bytes: int | None = None
    thermal_level: int | None = None
    clock_ratio: float | None = None
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None


class Sample(msgspec.Struct, frozen=True):
    """Of a sample, the machine."""

    host: Host = Host()


class Verdict(msgspec.Struct, frozen=True):
    """What one detector says."""

    detector: str
    level: str
    sentence: str
    numbers: dict[str, float] = {}


class Look(msgspec.Struct, frozen=True):
    """The watchdog's `/look`."""

    sample: Sample
    verdicts: list[Verdict]


class Spent(msgspec.Struct, frozen=True):
    """Seconds up, down and switched off."""

    up_s: float
    down_s: float
    off_s: float


class Piece(msgspec.Struct, frozen=True):
    """Of the watchdog's `/uptime`."""

    since: float
    until: float
    uptime: Spent
    engine_starts: int


class Incident(msgspec.Struct, frozen=True):
    """Something that went wrong."""

    id: str
    kind: str
    opened_at: float
    summary: str
    closed_at: float | None = None


class Action(msgspec.Struct, frozen=True):
    """What was done about it."""

    at: float
    why: str
    outcome: str | None = None


class IncidentTold(msgspec.Struct, frozen=True):
    """Both."""

    incident: Incident
    actions: list[Action] = []


class _Incidents(msgspec.Struct, frozen=True):
    incidents: list[IncidentTold]
    uptime: Spent


class Telling(msgspec.Struct, frozen=True):
    """Of the watchdog's `/alerts`: until when nobody is told, in seconds since 1970."""

    quiet_until: float | None


class Now(msgspec.Struct, frozen=True):
    """What it says of this moment; `look` is None before its first."""

    tree: Tree
    look: Look | None
    alerts: Telling


class Past(msgspec.Struct, frozen=True):
    """The last three days; of very many incidents the newest."""

    pieces: list[Piece]
    uptime: Spent
    incidents: list[IncidentTold]
    incidents_total: int


class WatchdogSilent(Exception):
    """It does not answer, or not in words that are known here."""


class WatchdogReader:
    """Asks the watchdog of this tree. `close` at the end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http: aiohttp.ClientSession | None = None

    async def now(self) -> Now:
        """Raises `WatchdogSilent`."""
        tree, look = await self._get("/status", Tree), await self._get("/look", Look | None)
        return Now(tree, look, await self._get("/alerts", Telling))

    async def past(self) -> Past:
        """Raises `WatchdogSilent`."""
        pieces = await self._get(f"/uptime?since_s={WINDOW_S}&pieces={PIECES}", list[Piece])
        told = await self._get(f"/incidents?since_s={WINDOW_S}", _Incidents)
        return Past(pieces, told.uptime, told.incidents[-MAX_INCIDENTS:], len(told.incidents))

    async def act(self, path: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        """Pass on what the operator wants, and what came of it. Raises `WatchdogSilent`."""
        headers = {"Authorization": authorization}
        try:
            async with self._session().post(f"{self._url}/{path}", data=body, headers=headers) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise WatchdogSilent from error

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _get(self, path: str, kind: Any) -> Any:
        try:
            async with self._session().get(self._url + path) as response:
                return msgspec.json.decode(await response.read(), type=kind)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise WatchdogSilent from error

    def _session(self) -> aiohttp.ClientSession:
        """Made on the event loop that uses it."""
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        return self._http
