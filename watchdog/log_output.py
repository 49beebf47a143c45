"""Where every line of the tree goes: the children's and our own, as JSON lines, or for people on a terminal.

A thread for each stream writes, so that a reader that stalls (a paused terminal, a full pipe) never stops the watchdog:
what does not fit the queue is dropped and counted.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from datetime import UTC, datetime
from typing import Any, Protocol

MAX_QUEUED_LINES = 10_000
CLOSE_DEADLINE_S = 2.0
GATHER_S = 0.2
"""Lines that come this soon after others are written together: to wake a thread costs more than a line does."""

Record = dict[str, Any]


class LineStream(Protocol):
    """As much of a text file as lines need."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class LogOutput:
    """A text file to `structlog`, whose lines are JSON objects; `child_line` takes what a child printed.

    Every stream gets all lines, at its own pace: a paused terminal does not keep them from the disk.
    """

    def __init__(self, *streams: LineStream) -> None:
        self._writers = [_Writer(stream) for stream in streams]

    def write(self, line: str) -> int:
        """Called by `structlog` with one line."""
        self._put(json.loads(line))
        return len(line)

    def flush(self) -> None:
        """The threads flush."""

    def child_line(self, child: str, line: str) -> None:
        """Pass on a line of a child, whatever it is."""
        self._put(as_record(child, line))

    def close(self) -> None:
        """Write what is queued, but do not wait for a reader that stalls."""
        for writer in self._writers:
            writer.close()

    def _put(self, record: Record) -> None:
        for writer in self._writers:
            writer.put(record)


class _Writer:
    """One stream's queue and thread."""

    def __init__(self, stream: LineStream) -> None:
        self._stream = stream
        self._render = for_people if stream.isatty() else json.dumps
        self._queue: queue.Queue[Record | None] = queue.Queue(MAX_QUEUED_LINES)
        self._dropped = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="log-output", daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        if self._dropped:
            record = {**record, "lines_dropped_before": self._dropped}
        try:
            self._queue.put_nowait(record)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=CLOSE_DEADLINE_S)
        self._closing.set()
        self._thread.join(CLOSE_DEADLINE_S)

    def _drain(self) -> None:
        record = self._queue.get()
        while record is not None:
            # The reader may be gone for good (a closed terminal); supervision goes on without it.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(self._render(record) + "\n")
            record = self._next()
        self._flush()

    def _next(self) -> Record | None:
        with contextlib.suppress(queue.Empty):
            return self._queue.get_nowait()
        self._flush()
        self._closing.wait(GATHER_S)
        return self._queue.get()

    def _flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def as_record(child: str, line: str) -> Record:
    """A child's line as a log record: its own when it is one, wrapped when it is plain text."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        record = {"event": "output", "line": line, "timestamp": datetime.now(UTC).isoformat()}
    return {**record, "source": child}


def for_people(record: Record) -> str:
    """One line: `03:28:46 engine-default warning what_happened key=value`."""
    rest = dict(record)
    time = str(rest.pop("timestamp", ""))[11:19]
    source = rest.pop("source", "")
    level = rest.pop("level", "")
    event = rest.pop("event", "")
    if event == "output":
        event = rest.pop("line", "")
    if exception := rest.pop("exception", None):
        rest["exception"] = _last_exception(exception)
    details = " ".join(f"{key}={value}" for key, value in rest.items())
    return _printable(" ".join(part for part in (time, f"{source:<15}", f"{level:<7}", event, details) if part))


def _printable(text: str) -> str:
    """What a client sent may be in a log line; it must not steer the terminal or make up lines of its own."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _last_exception(exception: Any) -> str:
    """`Type: message` out of structlog's structured traceback, or whatever it is."""
    try:
        return f"{exception[0]['exc_type']}: {exception[0]['exc_value']}"
    except (KeyError, IndexError, TypeError):
        return str(exception)
