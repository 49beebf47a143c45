"""What the tree says about itself: the words of `/status`, for both ends of it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ..engine.protocol import Heartbeat
from .death import Death
from .engine_role import EngineRole
from .shed_level import Shed
from .supervisor import Snapshot, State


class LastRestart(msgspec.Struct, frozen=True):
    """The last death of a child, and when it was ready again (None: not yet)."""

    reason: str
    at: datetime
    exit_code: int | None
    ready_after_s: float | None
    log_tail: tuple[str, ...]


class EngineStatus(msgspec.Struct, frozen=True):
    """One engine. `failure` says why it stays away, None when it does not."""

    name: str
    model: str
    state: State
    pid: int | None
    epoch: int
    restarts: int
    last_restart: LastRestart | None
    heartbeat: Heartbeat | None
    failure: str | None


class ServiceStatus(msgspec.Struct, frozen=True):
    """The service. `url` is where clients reach it."""

    pid: int | None
    state: State
    url: str
    restarts: int
    last_restart: LastRestart | None
    failure: str | None


class Status(msgspec.Struct, frozen=True):
    """The whole tree. `ready`: every engine is ready and the service says that it takes requests; `shed`: which of
    them it turns away, and why; `quiet_s`: how long no request but canaries has been in an engine."""

    ready: bool
    version: str
    home: str
    started_at: datetime
    engines: tuple[EngineStatus, ...]
    service: ServiceStatus
    shed: Shed
    quiet_s: float = 0.0

    def engine(self, name: str) -> EngineStatus | None:
        return next((engine for engine in self.engines if engine.name == name), None)


def engine_status(role: EngineRole, snapshot: Snapshot) -> EngineStatus:
    return EngineStatus(
        name=role.settings.name,
        model=role.settings.model_name,
        state=snapshot.state,
        pid=snapshot.pid,
        epoch=role.epoch,
        restarts=snapshot.restarts,
        last_restart=_last_restart(snapshot.deaths),
        heartbeat=role.heartbeat,
        failure=snapshot.failure,
    )


def service_status(url: str, snapshot: Snapshot) -> ServiceStatus:
    return ServiceStatus(
        pid=snapshot.pid,
        state=snapshot.state,
        url=url,
        restarts=snapshot.restarts,
        last_restart=_last_restart(snapshot.deaths),
        failure=snapshot.failure,
    )


def _last_restart(deaths: tuple[Death, ...]) -> LastRestart | None:
    if not deaths:
        return None
    death = deaths[-1]
    ready_after_s = None if death.ready_after_s is None else round(death.ready_after_s, 3)
    return LastRestart(death.reason, death.at, death.exit_code, ready_after_s, death.log_tail)
