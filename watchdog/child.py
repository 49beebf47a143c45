"""One child process: spawn, its output line by line, TERM -> deadline -> KILL, and its end in words.

The child leads a session of its own, so a terminal's Ctrl-C reaches the watchdog alone; its standard input is a pipe
that closes when the watchdog ends, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil
import structlog

MAX_LINE_BYTES = 16 * 1024  # a structured traceback fits
# How long output may go on after the child's end: only a grandchild that left the group can hold the pipe open.
OUTPUT_DEADLINE_S = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Launch:
    """How to start a child: `environment` is its whole environment, `pass_fds` keep their numbers in it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()


class LineSplitter:
    """Cuts a byte stream into lines of at most `MAX_LINE_BYTES`, so that no child can fill our memory with one."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._cut = 0

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes."""
        *completing, rest = data.split(b"\n")
        lines = []
        for piece in completing:
            self._extend(piece)
            lines.append(self._take())
        self._extend(rest)
        return lines

    def flush(self) -> list[str]:
        """The last line, if the stream ended without a newline."""
        return [self._take()] if self._line else []

    def _extend(self, piece: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._line)
        self._line += piece[:room]
        self._cut += max(0, len(piece) - room)

    def _take(self) -> str:
        text = self._line.decode("utf-8", errors="replace").rstrip("\r")
        if self._cut:
            text += f" [{self._cut} bytes cut]"
        self._line.clear()
        self._cut = 0
        return text


class Child(asyncio.SubprocessProtocol):
    """A process of ours. `spawn` once, then `exited`, then `wait` (or `stop`)."""

    def __init__(self, launch: Launch, on_line: Callable[[str], None], kept_lines: int) -> None:
        self._launch = launch
        self._on_line = on_line
        self._lines = LineSplitter()
        self._tail: deque[str] = deque(maxlen=kept_lines)
        self._exited = asyncio.Event()
        self._output_ended = asyncio.Event()
        self._said_more = asyncio.Event()
        self._transport: asyncio.SubprocessTransport

    async def spawn(self) -> None:
        """Start the process. Raises `OSError` when the system cannot."""
        self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *self._launch.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(self._launch.environment),
            start_new_session=True,
            pass_fds=self._launch.pass_fds,
        )

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its output."""
        return tuple(self._tail)

    async def until_said(self, words: str) -> None:
        """Returns once one of its last lines has these words."""
        while not any(words in line for line in self._tail):
            self._said_more.clear()
            await self._said_more.wait()

    async def exited(self) -> None:
        """Returns once the process has ended; its output may still be on the way."""
        await self._exited.wait()

    async def wait(self) -> int:
        """The exit code (negative: the signal), once the process has ended and its output was read to the end."""
        await self._exited.wait()
        # What it left behind must not hold its pipes, ports or memory when its successor starts.
        self._signal_group(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OUTPUT_DEADLINE_S):
                await self._output_ended.wait()
        code = self._transport.get_returncode()
        self._transport.close()
        assert code is not None, "the process has exited"
        return code

    @property
    def resident_bytes(self) -> int:
        """Memory that its end has to free; 0 once it has ended."""
        try:
            return psutil.Process(self.pid).memory_info().rss
        except psutil.Error:
            return 0

    @property
    def frozen(self) -> bool:
        """It was stopped (SIGSTOP), so until somebody continues it no signal reaches it but SIGKILL."""
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still lives."""
        with contextlib.suppress(ProcessLookupError):
            self._transport.send_signal(number)

    def note(self, line: str) -> None:
        """Keep a line about it among its own."""
        self._take_lines([line])

    async def stop(self, deadline_s: float) -> int:
        """Ask it to end, and after `deadline_s` make it, at once if it is frozen; returns its exit code."""
        if self.frozen:
            self.kill()
            return await self.wait()
        self.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(deadline_s):
                await self._exited.wait()
        except TimeoutError:
            log.warning("child_ignored_sigterm", pid=self.pid, deadline_s=deadline_s)
            self.kill()
        return await self.wait()

    def kill(self) -> None:
        """End it and everything in its group at once."""
        if self._transport.get_returncode() is None:
            self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        # macOS answers EPERM where only zombies are left in the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._take_lines(self._lines.feed(data))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._take_lines(self._lines.flush())
            self._output_ended.set()

    def process_exited(self) -> None:
        self._exited.set()

    def _take_lines(self, lines: list[str]) -> None:
        for line in lines:
            self._tail.append(line)
            self._on_line(line)
        self._said_more.set()


def exit_in_words(code: int) -> str:
    """`killed by SIGKILL`, `exit code 3`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
