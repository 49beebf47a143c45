"""How the `stoker` command finds a running tree and talks to it.

The standard library's HTTP client is enough for three requests, and is loaded in a tenth of aiohttp's time.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ..alerts.delivery import Telling
from ..config import Paths
from .errors import NotRunning, Refused
from .home import Serving, serving_path
from .journal.records import Interval
from .past import Past
from .soak_news import SoakNews
from .status import EngineStatus, Status
from .supervisor import State

TIMEOUT_S = 10.0
POLL_S = 0.1
_SETTLED = {State.READY, State.CIRCUIT_OPEN, State.FAILED}

T = TypeVar("T")


class _Restarting(msgspec.Struct, frozen=True):
    epoch: int


class Reclaimed(msgspec.Struct, frozen=True):
    """What an engine gave back."""

    engine: str
    level: int
    freed_bytes: int


class _Problem(msgspec.Struct, frozen=True):
    message: str


class _Problems(msgspec.Struct, frozen=True):
    error: _Problem


class WatchdogClient:
    """The watchdog of the tree on one `$STOKER_HOME`."""

    def __init__(self, paths: Paths) -> None:
        """Raises `NotRunning`."""
        self._paths = paths
        try:
            self.serving = msgspec.json.decode(serving_path(paths).read_bytes(), type=Serving)
        except (FileNotFoundError, msgspec.MsgspecError) as error:
            raise self._not_running() from error
        # A proxy of the user's must not be asked for this machine.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def status(self) -> Status:
        """The whole tree now. Raises `NotRunning`."""
        return _decode(self._ask("GET", "/status"), Status)

    def past(self, window_s: float) -> Past:
        """Incidents and uptime of the last so many seconds. Raises `NotRunning`."""
        return _decode(self._ask("GET", f"/incidents?since_s={window_s:.0f}"), Past)

    def telling(self) -> Telling:
        """Who is told of incidents, and what is on its way. Raises `NotRunning`."""
        return _decode(self._ask("GET", "/alerts"), Telling)

    def spells(self, window_s: float) -> list[Interval]:
        """What the tree was in the last so many seconds, oldest first. Raises `NotRunning`."""
        return _decode(self._ask("GET", f"/spells?since_s={window_s:.0f}"), list[Interval])

    def samples(self) -> bytes:
        """The last samples, as lines of JSON. Raises `NotRunning`."""
        return self._ask("GET", "/samples")

    def tell_soak(self, news: SoakNews) -> None:
        """How a soak run does. Raises `NotRunning` or `Refused`."""
        self._ask("POST", "/soak", msgspec.json.encode(news))

    def restart_engine(self, name: str) -> int:
        """Begin a planned restart; returns the epoch that ends. Raises `NotRunning` or `Refused`."""
        return _decode(self._ask("POST", f"/engines/{quote(name, safe='')}/restart"), _Restarting).epoch

    def drain_engine(self, name: str, drained: bool) -> None:
        """Give an engine nothing new, or again what comes. Raises `NotRunning` or `Refused`."""
        self._ask("POST", f"/engines/{quote(name, safe='')}/{'drain' if drained else 'resume'}")

    def reclaim_engine(self, name: str, level: int) -> Reclaimed:
        """Have an engine give memory back, and wait until it has. Raises `NotRunning` or `Refused`."""
        answer = self._ask("POST", f"/engines/{quote(name, safe='')}/reclaim", msgspec.json.encode({"level": level}))
        return _decode(answer, Reclaimed)

    def trace(self, name: str) -> dict[str, Any]:
        """One of the service's last traces, by its id, its request's id, or `last`. Raises `NotRunning`, `Refused`."""
        path = f"/internal/traces/{quote(name, safe='')}"
        return _decode(self._ask("GET", path, at=self.serving.api, admin=True), dict[str, Any])

    def settled(self, engine: str, after_epoch: int) -> EngineStatus:
        """Wait for a later incarnation than `after_epoch` that is ready, or for the news that there is none to come."""
        while True:
            found = self.status().engine(engine)
            if found is not None and found.epoch > after_epoch and found.state in _SETTLED:
                return found
            time.sleep(POLL_S)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, *, at: str | None = None, admin: bool = False
    ) -> bytes:
        """`at` is who to ask, by default the watchdog."""
        request = urllib.request.Request((at or self.serving.watchdog) + path, body, method=method)
        if admin or method == "POST":
            request.add_header("Authorization", f"Bearer {self._token()}")
        try:
            with self._http.open(request, timeout=TIMEOUT_S) as response:
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(_message(error.read(), error.code)) from error
        except (OSError, HTTPException) as error:
            raise self._not_running() from error

    def _token(self) -> str:
        try:
            return self._paths.admin_token.read_text(encoding="ascii").strip()
        except OSError as error:
            raise Refused(f"cannot read {self._paths.admin_token}: {error.strerror}; run as its owner") from error

    def _not_running(self) -> NotRunning:
        return NotRunning(f"no stoker runs on {self._paths.home}; start it with `stoker serve`, or set STOKER_HOME")


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(f"the watchdog's answer is not understood ({error}); is it of another version?") from error


def _message(body: bytes, code: int) -> str:
    try:
        return msgspec.json.decode(body, type=_Problems).error.message
    except msgspec.MsgspecError:
        return f"the answer was HTTP status {code}"
