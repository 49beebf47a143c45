"""The engine process around its loop: socket, heartbeats, signals and the step thread.

The main thread does I/O and never touches the model, so heartbeats and SIGTERM work while a step is stuck in native
code; the step thread loads the model and steps. If the step thread fails, the process ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import structlog

from ..config import EngineProcess
from ..process import EXIT_UNUSABLE, end_with_parent
from .batch import Batch
from .errors import FrameError, ModelError
from .link import Command, Finish, Link, OwnedEvent, Owner, OwnerGone, Stop
from .loop import EngineLoop
from .pace import PrefillPace
from .protocol import Drain, Draining, FromEngine, Heartbeat, Limits, Phase, Ready, Reclaimed, RequestEvent, StepEvents
from .scheduler import Scheduler
from .wire import reader_of_requests, say

MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""A connection that has not read this much is cut: its owner is stuck, and memory is bounded."""

ORPHAN_DRAIN_S = 60.0
"""With no parent left, what runs may end: the service drains for its own, shorter time, and hangs up after it."""

ORPHAN_STALL_S = 10.0
"""With no parent left to send SIGKILL, a step that does not end is left behind after this long."""

ORPHAN_POLL_S = 0.5

EXIT_STEP_THREAD_FAILED = 70

log = structlog.get_logger(__name__)


class EngineServer:
    """One engine process. `load` runs on the step thread and makes the batch."""

    def __init__(self, settings: EngineProcess, load: Callable[[], Batch]) -> None:
        self._settings = settings
        self._load = load
        self._phase = Phase.LOADING
        self._ready: Ready | None = None
        self._writers: dict[Owner, asyncio.StreamWriter] = {}
        self._next_owner = 0
        self._end_announced = False
        self._stopped = asyncio.Event()
        self._exit_code = 0
        self._loop = asyncio.get_running_loop()
        self._link = Link(
            deliver=lambda events: self._on_io_thread(self._deliver, events),
            announce=lambda model, limits: self._on_io_thread(self._announce, model, limits),
            reclaimed=lambda owner, level, freed: self._on_io_thread(self._tell_reclaimed, owner, level, freed),
        )

    async def run(self) -> int:
        """Serve until stopped; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        end_with_parent(self._parent_gone)
        server = await asyncio.start_unix_server(self._serve_connection, _fresh_socket_path(self._settings.socket))
        self._settings.socket.chmod(0o600)
        threading.Thread(target=self._step_thread, name="engine-step", daemon=True).start()
        heartbeats = asyncio.create_task(self._send_heartbeats())
        await self._stopped.wait()
        heartbeats.cancel()
        server.close()
        for writer in self._writers.values():
            writer.close()
        self._settings.socket.unlink(missing_ok=True)
        return self._exit_code

    def _step_thread(self) -> None:
        code = 0
        try:
            settings = self._settings.engine
            batch = self._load()
            pace = PrefillPace(settings.prefill_chunk, settings.target_inter_token_ms / 1000)
            scheduler = Scheduler(settings.max_running, settings.max_waiting, pace.chunk)
            EngineLoop(self._link, scheduler, batch, pace, time.monotonic).run()
            batch.close()
        except ModelError as error:
            log.error("unusable", error=str(error))
            code = EXIT_UNUSABLE
        except BaseException as error:
            log.exception("step_thread_failed", error=f"{type(error).__name__}: {error}")
            code = EXIT_STEP_THREAD_FAILED
        self._on_io_thread(self._finish, code)

    def _on_io_thread(self, callback: Callable[..., None], *args: object) -> None:
        # The event loop may be closed already when a step ends after the process began to exit.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def _finish(self, code: int) -> None:
        # Only now: an engine that hangs is asked to stop as well, and its loss has to count as a crash.
        if code == 0:
            self._announce_end()
        self._exit_code = code
        self._stopped.set()

    def _stop(self) -> None:
        if self._phase is Phase.LOADING:
            # Nothing is in flight, and the step thread hears nothing before it has loaded.
            self._finish(0)
        self._phase = Phase.STOPPING
        self._link.put(Stop())

    def _drain(self, deadline_s: float) -> None:
        if self._phase is Phase.LOADING:
            self._stop()
            return
        log.info("draining", deadline_s=deadline_s)
        self._announce_end()
        self._link.put(Finish())
        self._loop.call_later(deadline_s, self._link.put, Stop())

    def _announce_end(self) -> None:
        self._phase = Phase.STOPPING
        self._end_announced = True
        for owner in list(self._writers):
            self._write(owner, Draining(epoch=self._settings.epoch))

    def _parent_gone(self) -> None:
        """On the parent-watch thread, which from now on does the watching."""
        self._on_io_thread(self._drain, ORPHAN_DRAIN_S)
        left_s = ORPHAN_STALL_S
        steps = self._link.reading.steps
        while left_s > 0:
            time.sleep(ORPHAN_POLL_S)
            left_s -= ORPHAN_POLL_S
            if steps != self._link.reading.steps:
                left_s, steps = ORPHAN_STALL_S, self._link.reading.steps
        os._exit(EXIT_STEP_THREAD_FAILED)

    def _announce(self, model: str, limits: Limits) -> None:
        self._phase = Phase.READY
        self._ready = Ready(epoch=self._settings.epoch, pid=os.getpid(), model=model, limits=limits)
        for owner in list(self._writers):
            self._write(owner, self._ready)

    def _deliver(self, events: Sequence[OwnedEvent]) -> None:
        by_owner: defaultdict[Owner, list[RequestEvent]] = defaultdict(list)
        for owned in events:
            by_owner[owned.owner].append(owned.event)
        for owner, its_events in by_owner.items():
            self._write(owner, StepEvents(epoch=self._settings.epoch, events=its_events))

    def _tell_reclaimed(self, owner: Owner, level: int, freed_bytes: int) -> None:
        self._write(owner, Reclaimed(self._settings.epoch, level, freed_bytes))

    def _write(self, owner: Owner, word: FromEngine) -> None:
        writer = self._writers.get(owner)
        if writer is None:
            return
        if writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            log.error("connection_cut", owner=owner, unsent_bytes=writer.transport.get_write_buffer_size())
            writer.transport.abort()
            return
        say(writer, word)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner, self._next_owner = self._next_owner, self._next_owner + 1
        self._writers[owner] = writer
        if self._ready is not None:
            self._write(owner, self._ready)
        if self._end_announced:
            self._write(owner, Draining(epoch=self._settings.epoch))
        words = reader_of_requests(reader)
        try:
            while (word := await words.read()) is not None:
                if isinstance(word, Drain):
                    self._drain(word.deadline_s)
                else:
                    self._link.put(Command(owner, word))
        except FrameError as error:
            log.error("connection_broken", owner=owner, error=str(error))
        finally:
            del self._writers[owner]
            self._link.put(OwnerGone(owner))
            writer.close()

    async def _send_heartbeats(self) -> None:
        process = psutil.Process()
        while True:
            heartbeat = self._heartbeat(process.memory_info().rss)
            for owner in list(self._writers):
                self._write(owner, heartbeat)
            await asyncio.sleep(self._settings.engine.heartbeat_s)

    def _heartbeat(self, footprint: int) -> Heartbeat:
        reading = self._link.reading
        age = None if reading.progress_at is None else time.monotonic() - reading.progress_at
        return Heartbeat(
            epoch=self._settings.epoch,
            pid=os.getpid(),
            phase=self._phase,
            steps=reading.steps,
            last_step_age=age,
            running=reading.running,
            waiting=reading.waiting,
            memory=reading.memory.with_footprint(footprint),
            busy_s=reading.busy_s,
            computed_tokens=reading.computed_tokens,
            step_tokens=reading.step_tokens,
            prefix_cache=reading.prefix_cache,
            drafts=reading.drafts,
            preemptions=reading.preemptions,
            decoding=reading.decoding,
            generated_tokens=reading.generated_tokens,
            finished=reading.finished,
        )


def _fresh_socket_path(path: Path) -> str:
    """The path, free of what a killed predecessor left there, in a folder for this user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return str(path)
