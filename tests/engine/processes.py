"""A real engine process for tests, and a listener that remembers what it said."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from stoker.config import Engine, EngineProcess
from stoker.engine.client import SocketEngineClient
from stoker.engine.protocol import Finished, Heartbeat, Ready, Rejected, RequestEvent, Submit, Tokens

DEADLINE_S = 40.0

T = TypeVar("T")


class Recorder:
    """An `EngineListener` that keeps everything and wakes whoever waits for it."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self.readies: list[Ready] = []
        self.drainings: list[int] = []
        self.losses: list[str] = []
        self.heartbeats: list[Heartbeat] = []
        self.events: list[RequestEvent] = []
        self._changed = asyncio.Event()

    def engine_ready(self, ready: Ready) -> None:
        self._note(self.readies, ready)

    def engine_draining(self) -> None:
        self._note(self.drainings, self.readies[-1].epoch)

    def engine_lost(self, reason: str) -> None:
        self._note(self.losses, reason)

    def engine_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._note(self.heartbeats, heartbeat)

    def engine_event(self, event: RequestEvent) -> None:
        self._note(self.events, event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds after something was heard."""
        async with asyncio.timeout(self._deadline_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def ended(self, *ids: str) -> None:
        await self.until(lambda: set(ids) <= {e.id for e in self.events if isinstance(e, Finished | Rejected)})

    def tokens(self, request_id: str) -> list[int]:
        return [i for e in self.events if isinstance(e, Tokens) and e.id == request_id for i in e.ids]

    def _note(self, kind: list[T], word: T) -> None:
        kind.append(word)
        self._changed.set()


class EngineUnderTest:
    """The process, the client that talks to it, and what it said."""

    def __init__(self, process: subprocess.Popen[bytes], client: SocketEngineClient, heard: Recorder) -> None:
        self.process = process
        self.client = client
        self.heard = heard

    async def ask(self, *requests: Submit) -> None:
        """Submit and wait for all ends."""
        for request in requests:
            self.client.submit(request)
        await self.heard.ended(*(request.id for request in requests))


def settings_of(folder: Path, engine: Engine, model_path: Path | None = None, epoch: int = 1) -> EngineProcess:
    return EngineProcess(
        name="engine-test",
        model_name="test-model",
        model_path=model_path,
        socket=folder / "engine.sock",
        kv_path=folder / "kv",
        epoch=epoch,
        engine=engine,
    )


def start_engine(
    folder: Path, settings: EngineProcess, command: tuple[str, ...] = ("-m", "stoker.engine")
) -> subprocess.Popen[bytes]:
    path = folder / "engine.json"
    path.write_text(settings.model_dump_json())
    return subprocess.Popen(
        [sys.executable, *command, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@contextlib.asynccontextmanager
async def running_engine(
    folder: Path,
    engine: Engine,
    model_path: Path | None = None,
    command: tuple[str, ...] = ("-m", "stoker.engine"),
    heard: Recorder | None = None,
) -> AsyncIterator[EngineUnderTest]:
    """An engine process that is ready, with a client; killed at the end if it still runs."""
    settings = settings_of(folder, engine, model_path)
    process = start_engine(folder, settings, command)
    heard = heard or Recorder()
    client = SocketEngineClient(settings.socket, heard)
    listening = asyncio.create_task(client.run())
    try:
        await heard.until(lambda: bool(heard.readies and heard.heartbeats))
        yield EngineUnderTest(process, client, heard)
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        process.kill()
        process.communicate()
