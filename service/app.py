"""The service process from its first to its last moment: parts joined, requests served, streams drained."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket

import structlog
from aiohttp import web

from ..config import ServiceProcess, Telemetry
from ..engine.client import SocketEngineClient
from ..process import EXIT_UNUSABLE, end_with_parent
from .connection import listen
from .context import Context
from .errors import ShuttingDown, TextModelError
from .export import Export, Sender
from .ledger import Ledger
from .metrics import Metrics
from .pages.routes import StatusPage
from .readings import LedgerReadings, LiveCollector
from .routes import make_app
from .text_worker import TextWorker
from .traces import Traces

LEDGER_TICK_S = 0.25
LAST_WORDS_S = 1.0
"""How long a stream that was ended at the drain deadline may take to say so."""

log = structlog.get_logger(__name__)


class Service:
    """One service process."""

    def __init__(self, settings: ServiceProcess) -> None:
        self._settings = settings
        self._text = TextWorker(settings.engine.model_path)
        metrics = Metrics()
        readings = LedgerReadings(metrics)
        self._ledger = Ledger(readings, settings.server)
        self._client = SocketEngineClient(settings.engine.socket, self._ledger)
        self._ledger.connect(self._client)
        self._export = None if settings.telemetry.otlp_endpoint is None else Export(lambda: _sender(settings.telemetry))
        traces = Traces(settings.telemetry.sample_ratio, self._export)
        metrics.registry.register(LiveCollector(self._ledger, readings.engines, self._export))
        self._context = Context(settings, self._ledger, self._text, metrics, traces)
        self._page = StatusPage(self._context, readings.engines, settings.watchdog_url)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Serve until told to stop; returns the exit code."""
        self._listen_for_the_end()
        # Without cancellation of handlers nobody would notice that the client of a long answer has left.
        runner = web.AppRunner(
            make_app(self._context, self._page),
            handler_cancellation=True,
            shutdown_timeout=LAST_WORDS_S,
        )
        await runner.setup()
        listening = await listen(runner, socket.socket(fileno=self._settings.listen_fd))
        try:
            log.info("serving", addresses=[str(each.getsockname()) for each in listening.sockets])
            return await self._serve()
        finally:
            listening.close()
            await runner.cleanup()
            self._text.close()
            if self._export is not None:
                self._export.close()

    async def _serve(self) -> int:
        exit_code = 0
        try:
            async with asyncio.TaskGroup() as group:
                parts = (self._client.run(), self._tick(), self._load(), self._context.vitals.run(), self._page.run())
                tasks = [group.create_task(part) for part in parts]
                await self._stop.wait()
                await self._drain()
                for task in tasks:
                    task.cancel()
        except* TextModelError as errors:
            log.error("unusable", error=str(errors.exceptions[0]))
            exit_code = EXIT_UNUSABLE
        return exit_code

    async def _load(self) -> None:
        await self._text.load()
        log.info("text_model_loaded")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(LEDGER_TICK_S)
            self._ledger.tick()

    async def _drain(self) -> None:
        """Let what runs end; cut it at the deadline, and let it say so."""
        self._context.door.stopping = True
        log.info("draining", deadline_s=self._settings.server.drain_deadline_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.server.drain_deadline_s):
                await self._context.door.until_empty()
        self._ledger.fail_all(ShuttingDown("the server shut down before this answer was complete; send it again"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._context.door.until_empty()
        log.info("drained")

    def _listen_for_the_end(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

        def parent_gone() -> None:
            # The loop may be closed already.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._stop.set)

        end_with_parent(parent_gone)


def _sender(settings: Telemetry) -> Sender:
    """On the export's thread: the OpenTelemetry packages take a second to import, and most services need none."""
    from .otlp import OtlpSender

    return OtlpSender(settings)
