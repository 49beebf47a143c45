"""The tree: its configuration, who holds its home and its ports, the service, and the load it turns away."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

import psutil

from ...config import Config, ConfigError, Paths, load
from ..client import WatchdogClient
from ..errors import AddressUnavailable, NotRunning, WatchdogError
from ..home import holder
from ..ports import ListeningSocket
from ..status import Status
from ..supervisor import State
from .deaths import FORGOTTEN, recent, told
from .findings import START_AGAIN, WAIT, Finding, Layer, Level

_finding = partial(Finding, Layer.SERVER)


CONFIG_REMEDY = "mend that; `stoker config schema` shows every key, `stoker config check` whether all is well"
PORT_REMEDY = "stop that program, or set another `server.port` or `watchdog.port`; then start `stoker serve`"


class Holder(StrEnum):
    """Who has the lock of the home."""

    NOBODY = "nobody"
    TREE = "tree"
    ORPHANS = "orphans"


@dataclass(frozen=True)
class ServerReading:
    """What was found out about the tree on one home; `status` is None when no watchdog answers."""

    home: Path
    config: Config | None
    config_error: str | None
    holder: Holder
    holder_pid: int | None
    status: Status | None
    status_error: str | None
    port_conflicts: tuple[str, ...]
    """Who has a port that a start would want, while no tree runs; one sentence each."""


def read_server(paths: Paths, config_file: Path | None) -> ServerReading:
    """Look at the home; a tree that runs is asked, one that does not is not started."""
    config, config_error = _config(config_file, paths)
    holder, pid = _holder(paths)
    status, status_error = _status(paths)
    conflicts = _port_conflicts(config) if config is not None and holder is Holder.NOBODY else ()
    return ServerReading(paths.home, config, config_error, holder, pid, status, status_error, conflicts)


def judge_server(reading: ServerReading) -> list[Finding]:
    """The configuration first: with a bad one nothing else starts."""
    findings = [_judge_config(reading), _judge_tree(reading)]
    findings += [_finding("port", Level.FAILURE, sentence, PORT_REMEDY) for sentence in reading.port_conflicts]
    if reading.status is not None:
        findings += [_judge_service(reading.status), _judge_shed(reading.status)]
    return findings


def _judge_config(reading: ServerReading) -> Finding:
    if reading.config_error is not None:
        return _finding("configuration", Level.FAILURE, reading.config_error, CONFIG_REMEDY)
    return _finding("configuration", Level.OK, "valid")


def _judge_tree(reading: ServerReading) -> Finding:
    if reading.status is not None:
        measured = f"runs on {reading.home} since {reading.status.started_at:%Y-%m-%d %H:%M} UTC"
        return _finding("tree", Level.OK, measured)
    lock = Paths(reading.home).lock
    match reading.holder:
        case Holder.ORPHANS:
            measured = f"children of a `stoker serve` that is gone (pid {reading.holder_pid}) still hold {lock}"
            remedy = f"end them with {_kill(f'$(lsof -t {lock})')}, then start `stoker serve`"
            return _finding("tree", Level.FAILURE, measured, remedy)
        case Holder.TREE:
            measured = f"pid {reading.holder_pid} holds {lock}, but its watchdog does not answer"
            end = f"end it with {_kill(str(reading.holder_pid))}"
            remedy = f"if it is not just starting, {end}, then start `stoker serve`"
            return _finding("tree", Level.FAILURE, measured, remedy)
    measured = reading.status_error or "no tree runs"
    return _finding("tree", Level.FAILURE, measured, "start it with `stoker serve`, or for good with `stoker install`")


def _kill(whom: str) -> str:
    """A process that hangs in native code hears no SIGTERM."""
    return f"`kill {whom}`, if that does not help with `kill -9 {whom}`"


def _judge_service(status: Status) -> Finding:
    service = status.service
    if service.state in (State.CIRCUIT_OPEN, State.FAILED):
        reason = service.failure or "it stays away"
        remedy = f"mend what it said last (`stoker status --json` shows it) and {START_AGAIN}"
        return _finding("service", Level.FAILURE, f"{service.state}: {reason}", remedy)
    if service.state is not State.READY:
        return _finding("service", Level.WARNING, service.state.value, WAIT)
    if service.last_restart is not None and recent(service.last_restart):
        remedy = f"`stoker status --json` shows what it said last; {FORGOTTEN}"
        return _finding("service", Level.WARNING, f"ready, {told(service.restarts, service.last_restart)}", remedy)
    return _finding("service", Level.OK, f"ready at {service.url}")


def _judge_shed(status: Status) -> Finding:
    if status.shed.level == 0:
        return _finding("load", Level.OK, "nothing is turned away")
    measured = f"shed level {status.shed.level}: {status.shed.reason}"
    return _finding("load", Level.WARNING, measured, "it ends with its cause; the layers below say what that is")


def _config(file: Path | None, paths: Paths) -> tuple[Config | None, str | None]:
    try:
        return load(file, paths), None
    except ConfigError as error:
        return None, str(error)


def _status(paths: Paths) -> tuple[Status | None, str | None]:
    try:
        return WatchdogClient(paths).status(), None
    except NotRunning as error:
        return None, str(error).split(";", maxsplit=1)[0]
    except WatchdogError as error:
        return None, str(error)


def _holder(paths: Paths) -> tuple[Holder, int | None]:
    """Whether the lock can be had, without keeping it."""
    try:
        lock = os.open(paths.lock, os.O_RDONLY)
    except OSError:
        return Holder.NOBODY, None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return Holder.NOBODY, None
    except BlockingIOError:
        pid = holder(lock)
        return (Holder.TREE if pid is None or psutil.pid_exists(pid) else Holder.ORPHANS), pid
    finally:
        os.close(lock)


def _port_conflicts(config: Config) -> tuple[str, ...]:
    conflicts = []
    for host, port in ((config.server.host, config.server.port), (config.watchdog.host, config.watchdog.port)):
        listening = ListeningSocket(host, port, "choose another")
        try:
            listening.open()
        except AddressUnavailable as error:
            conflicts.append(str(error).split(";", maxsplit=1)[0])
        finally:
            listening.close()
    return tuple(conflicts)
