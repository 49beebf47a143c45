"""The near side of an engine: what the service and the watchdog hold, whatever the engine is made of.

`EngineClient` is the interface (one engine; other kinds may follow). `SocketEngineClient` reaches an engine process
over its Unix socket, reconnects for as long as it lives, and drops frames of older epochs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from pathlib import Path
from typing import Protocol

import structlog

from .errors import EngineUnavailable, FrameError
from .protocol import (
    Cancel,
    Drain,
    Draining,
    FromEngine,
    Heartbeat,
    Ready,
    Reclaim,
    Reclaimed,
    RequestEvent,
    StepEvents,
    Submit,
    Tighten,
    ToEngine,
)
from .wire import reader_of_events, say

RECONNECT_DELAY_S = 0.05

log = structlog.get_logger(__name__)


class EngineListener(Protocol):
    """Who hears what an engine says. Called on the event loop; must not block."""

    def engine_ready(self, ready: Ready) -> None:
        """A (new) incarnation takes requests."""

    def engine_draining(self) -> None:
        """The incarnation ends on purpose: it takes nothing new, and its loss is no crash."""

    def engine_lost(self, reason: str) -> None:
        """The connection ended; every request that was in flight on it is gone from the engine."""

    def engine_heartbeat(self, heartbeat: Heartbeat) -> None:
        """A cached reading arrived."""

    def engine_event(self, event: RequestEvent) -> None:
        """Something happened to one request, in order."""


class EngineClient(Protocol):
    """One engine, as seen by those who send it requests."""

    @property
    def ready(self) -> Ready | None:
        """What the current incarnation said about itself, or None while there is none."""

    def submit(self, request: Submit) -> None:
        """Hand over a request. Raises `EngineUnavailable` when no incarnation is ready."""

    def cancel(self, request_id: str) -> None:
        """Ask for the end of a request; nothing happens when the engine is gone."""


class SocketEngineClient:
    """An engine process behind a Unix socket. Run `run()` as a task for as long as the client is needed."""

    def __init__(self, socket: Path, listener: EngineListener) -> None:
        self._socket = socket
        self._listener = listener
        self._writer: asyncio.StreamWriter | None = None
        self._ready: Ready | None = None
        self._epoch = 0
        self._reclaims: deque[asyncio.Future[Reclaimed]] = deque()
        """Those not answered yet, in the order in which they were sent."""

    @property
    def ready(self) -> Ready | None:
        return self._ready

    def submit(self, request: Submit) -> None:
        if self._ready is None:
            raise EngineUnavailable("the engine is not ready")
        self._send(request)

    def cancel(self, request_id: str) -> None:
        if self._ready is not None:
            self._send(Cancel(id=request_id))

    def drain(self, deadline_s: float) -> bool:
        """Ask for the engine's end; False when no incarnation is ready to hear it."""
        if self._ready is None:
            return False
        self._send(Drain(deadline_s=deadline_s))
        return True

    async def reclaim(self, level: int) -> Reclaimed:
        """Have memory given back (`protocol.Reclaim`); returns once it is, after the step that runs.

        Raises `EngineUnavailable` when no incarnation is ready, or when it goes before it has answered.
        """
        if self._ready is None:
            raise EngineUnavailable("the engine is not ready")
        answer: asyncio.Future[Reclaimed] = asyncio.get_running_loop().create_future()
        self._reclaims.append(answer)
        self._send(Reclaim(level=level))
        return await answer

    def tighten(self, limits: Tighten) -> bool:
        """Bound what the engine does at once; False when no incarnation is ready to hear it."""
        if self._ready is None:
            return False
        self._send(limits)
        return True

    async def run(self) -> None:
        """Connect, listen, reconnect; ends only by cancellation."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._socket))
            except OSError:
                await asyncio.sleep(RECONNECT_DELAY_S)
                continue
            self._writer = writer
            reason = "the watcher of the engine stopped"
            try:
                reason = await self._listen(reader)
            finally:
                self._writer = None
                was_ready, self._ready = self._ready, None
                self._abandon_reclaims()
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
                if was_ready is not None:
                    self._listener.engine_lost(reason)
            await asyncio.sleep(RECONNECT_DELAY_S)

    async def _listen(self, reader: asyncio.StreamReader) -> str:
        """Dispatch words until the connection ends; returns why it ended."""
        words = reader_of_events(reader)
        while True:
            try:
                word = await words.read()
            except FrameError as error:
                log.warning("engine_frame_broken", error=str(error))
                return str(error)
            if word is None:
                return "the engine closed its connection"
            self._dispatch(word)

    def _dispatch(self, word: FromEngine) -> None:
        if word.epoch < self._epoch:
            log.warning("engine_frame_of_older_epoch", epoch=word.epoch, current=self._epoch)
            return
        match word:
            case Ready():
                self._epoch = word.epoch
                self._ready = word
                self._listener.engine_ready(word)
            case Heartbeat():
                self._listener.engine_heartbeat(word)
            case Draining():
                self._listener.engine_draining()
            case Reclaimed():
                answer = self._reclaims.popleft()
                # Who asked may have given up waiting.
                if not answer.done():
                    answer.set_result(word)
            case StepEvents():
                for event in word.events:
                    self._listener.engine_event(event)

    def _abandon_reclaims(self) -> None:
        while self._reclaims:
            answer = self._reclaims.popleft()
            if not answer.done():
                answer.set_exception(EngineUnavailable("the engine went before it had answered"))

    def _send(self, word: ToEngine) -> None:
        assert self._writer is not None, "ready without a connection"
        say(self._writer, word)
