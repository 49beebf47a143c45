"""One server as a process: started, ready when it says so, killed on request, and stopped for certain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from ...engine.blas import preload_environment
from ...watchdog.child import Child, Launch, exit_in_words
from ..bench.sitting import Watched, served_model
from ..errors import StackFailed
from ..exchange import session
from ..target import Target
from .stacks import Contender

STOP_WITHIN_S = 30.0
_POLL_S = 0.2
_KEPT_LINES = 20


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is ready, after `start_s` seconds."""

    target: Target
    watched: Watched
    start_s: float
    kill: Callable[[], None]
    """SIGKILL to the process that computes."""


@contextlib.asynccontextmanager
async def running(contender: Contender, streams: int, ready_within_s: float) -> AsyncIterator[Running]:
    """From its start to its end. Raises `StackFailed`."""
    with tempfile.TemporaryDirectory(prefix="stoker-compare-") as folder:
        words = _words(contender, streams, folder)
        child = Child(_launch(contender, words), lambda _: None, _KEPT_LINES)
        began = time.monotonic()
        try:
            await child.spawn()
        except OSError as error:
            raise StackFailed(f"{contender.name} cannot be started: {error}") from error
        ended = asyncio.create_task(child.exited())
        try:
            url = f"http://127.0.0.1:{words['port']}"
            await _until_ready(child, ended, contender, url + contender.entry.ready, ready_within_s)
            start_s = time.monotonic() - began
            name = contender.entry.served_as
            target = Target(url, name.format_map(words) if name else await served_model(url, None))
            yield Running(target, _watched(child, ended, contender, words), start_s, lambda: _kill(child, contender))
        finally:
            ended.cancel()
            await child.stop(STOP_WITHIN_S)


def missing(contender: Contender) -> str | None:
    """Why it cannot be started here, in one sentence; None when its program is there."""
    program = contender.entry.command[0].format_map(_installation())
    if shutil.which(program) is not None:
        return None
    return f"{contender.name} was left out: there is no {program} here; install it, or say where it is with `program`"


def _installation() -> dict[str, str]:
    return {"python": sys.executable, "stoker": str(Path(sys.executable).with_name("stoker"))}


def _words(contender: Contender, streams: int, folder: str) -> dict[str, str]:
    port, other_port = _free_ports(2)
    own = {"port": str(port), "other_port": str(other_port), "folder": folder}
    return {**_installation(), **own, "model": contender.model, "streams": str(streams)}


def _free_ports(count: int) -> list[int]:
    """Free a moment ago: servers cannot be handed a socket that listens already."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _launch(contender: Contender, words: dict[str, str]) -> Launch:
    entry = contender.entry
    extra = {name: value.format_map(words) for name, value in entry.environment.items()}
    # Everybody gets the fast BLAS, and nobody looks for a newer model on a hub.
    environment = {**preload_environment(os.environ), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **extra}
    return Launch(tuple(word.format_map(words) for word in entry.command), environment)


async def _until_ready(
    child: Child, ended: asyncio.Task[None], contender: Contender, url: str, within_s: float
) -> None:
    try:
        async with asyncio.timeout(within_s), session() as http:
            while not await _answers(http, url):
                done, _ = await asyncio.wait([ended], timeout=_POLL_S)
                if done:
                    code = exit_in_words(await child.wait())
                    raise StackFailed(f"{contender.name} ended before it was ready: {code}; {_last_words(child)}")
    except TimeoutError:
        raise StackFailed(
            f"{contender.name} was not ready within {within_s:.0f} s ({url}); {_last_words(child)}"
        ) from None


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url, timeout=aiohttp.ClientTimeout(total=5)) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


def _last_words(child: Child) -> str:
    said = [line for line in child.tail if line.strip()]
    return f"its last words: {said[-1]}" if said else "it said nothing"


def _watched(child: Child, ended: asyncio.Task[None], contender: Contender, words: dict[str, str]) -> Watched:
    urls = tuple(url.format_map(words) for url in contender.entry.metrics)
    # A server of one process dies with its engine, and nobody but its init system would start it again.
    deaths = None if urls else (lambda: int(ended.done()))
    return Watched(lambda: None if ended.done() else child.pid, urls, deaths)


def _kill(child: Child, contender: Contender) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        engine = contender.entry.engine
        root = psutil.Process(child.pid)
        computing = [
            each for each in root.children(recursive=True) if engine is not None and engine in " ".join(each.cmdline())
        ]
        (computing or [root])[0].send_signal(signal.SIGKILL)
