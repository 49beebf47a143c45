"""What the service adds: from a request's last byte to `Submit`, and from `Tokens` to the byte that a client reads.

Sixteen clients stream from the simulated engine, each beginning anew when its answer ends. A tap on the engine's
socket takes the time of every word; it runs in this process together with the clients, so their own work is part of
what is measured. The relay's rate is measured with an engine that never waits. Prints a table, or JSON. Run with

    python -m tests.bench.service [--streams 16] [--seconds 10] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from stoker.config import Simulated
from stoker.engine.protocol import FromEngine, StepEvents, Submit, ToEngine, Tokens
from stoker.engine.wire import FrameReader, encode, reader_of_events, reader_of_requests
from tests.service.rig import CHAT, Rig

LETTERS = "abcdefghijklmnopqrst" * 3
"""The answer: a letter a token, and no spaces, which are held back until it is known what follows."""
RHYTHM_S = 0.02
"""Of a step while latencies are measured: what sixteen rows of a small model take."""
_CONTENT = re.compile(rb'"content":"([a-z]+)"')
_NAME = re.compile(rb"<(\d+)>")


@dataclass
class Clocks:
    """When what was seen, by request: its last byte sent, `Submit`, each letter from the engine and to the client."""

    sent: dict[int, float] = field(default_factory=dict)
    submitted: dict[int, float] = field(default_factory=dict)
    drawn: dict[int, list[float]] = field(default_factory=dict)
    read: dict[int, list[float]] = field(default_factory=dict)

    def submit_ms(self) -> list[float]:
        return [(self.submitted[name] - self.sent[name]) * 1000 for name in self.submitted]

    def relay_ms(self) -> list[float]:
        pairs = ((self.drawn[name], read) for name, read in self.read.items())
        return [(at - was) * 1000 for drawn, read in pairs for was, at in zip(drawn, read, strict=False)]


class Tap:
    """Between the service and the engine: passes every word on, and takes its time."""

    def __init__(self, engine: Path, clocks: Clocks) -> None:
        self._engine = engine
        self._clocks = clocks
        self._names: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the service."""
        from_engine, to_engine = await asyncio.open_unix_connection(str(self._engine))
        with contextlib.suppress(ConnectionError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._down(reader_of_requests(reader), to_engine))
                group.create_task(self._up(reader_of_events(from_engine), writer))

    async def _down(self, words: FrameReader[ToEngine], to: asyncio.StreamWriter) -> None:
        while (word := await words.read()) is not None:
            if isinstance(word, Submit) and (name := _NAME.search(bytes(word.prompt))):
                self._names[word.id] = int(name[1])
                self._clocks.submitted[int(name[1])] = time.perf_counter()
            to.write(encode(word))
        to.close()

    async def _up(self, words: FrameReader[FromEngine], to: asyncio.StreamWriter) -> None:
        while (word := await words.read()) is not None:
            frame = encode(word)
            now = time.perf_counter()
            to.write(frame)
            for event in word.events if isinstance(word, StepEvents) else ():
                if isinstance(event, Tokens):
                    self._clocks.drawn.setdefault(self._names[event.id], []).extend([now] * len(event.ids))
        to.close()


class Clients:
    """Streams that follow each other on connections of their own."""

    def __init__(self, port: int, clocks: Clocks) -> None:
        self._port = port
        self._clocks = clocks
        self._count = 0

    async def run(self, streams: int, seconds: float) -> int:
        """Returns the letters that came in that time."""
        until = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as group:
            # One after the other over the time of an answer, or all would end, and begin anew, in the same step.
            apart_s = len(LETTERS) * RHYTHM_S / streams
            tasks = [group.create_task(self._stream(until, number * apart_s)) for number in range(streams)]
        return sum(task.result() for task in tasks)

    async def _stream(self, until: float, wait_s: float) -> int:
        await asyncio.sleep(wait_s)
        letters = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while time.perf_counter() < until:
            self._count += 1
            letters += await self._ask(self._count, reader, writer)
        writer.close()
        return letters

    async def _ask(self, name: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        body = {"model": "default", "stream": True, "messages": [{"role": "user", "content": f"<{name}> Hello."}]}
        data = json.dumps(body).encode()
        writer.write(b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(data)))
        writer.write(data)
        self._clocks.sent[name] = time.perf_counter()
        read = self._clocks.read[name] = []
        rest = b""
        while not rest.endswith(b"\r\n0\r\n\r\n"):
            got = await reader.read(65536)
            now = time.perf_counter()
            events, _, rest = (rest + got).rpartition(b"\n\n")
            for letters in _CONTENT.findall(events):
                read.extend([now] * len(letters))
        return len(read)


@contextlib.asynccontextmanager
async def tapped(folder: Path, step_s: float, clocks: Clocks) -> AsyncIterator[Rig]:
    """A service that reaches its engine through a tap."""
    (folder / "engine").mkdir()
    rig = Rig(folder / "engine", simulated=Simulated(script=LETTERS, step_s=step_s))
    tap = Tap(rig.socket, clocks)
    server = await asyncio.start_unix_server(tap.serve, folder / "tap.sock")
    rig.service_socket = folder / "tap.sock"
    try:
        await rig.start()
        yield rig
    finally:
        await rig.stop()
        server.close()


async def measure(step_s: float, streams: int, seconds: float) -> tuple[Clocks, float]:
    """The clocks, and the letters a second."""
    clocks = Clocks()
    with tempfile.TemporaryDirectory() as folder:
        async with tapped(Path(folder), step_s, clocks) as rig:
            clients = Clients(rig.port, clocks)
            await clients.run(streams, seconds / 5)
            # What is first used is slow once.
            for seen in (clocks.sent, clocks.submitted, clocks.drawn, clocks.read):
                seen.clear()
            began = time.perf_counter()
            letters = await clients.run(streams, seconds)
            return clocks, letters / (time.perf_counter() - began)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, p99 and number."""
    return {"p50_ms": statistics.median(values), "p99_ms": statistics.quantiles(values, n=100)[98], "n": len(values)}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    clocks, _ = await measure(RHYTHM_S, asked.streams, asked.seconds)
    _, rate = await measure(0.0, asked.streams, asked.seconds)
    figures = {"request_to_submit": spread(clocks.submit_ms()), "tokens_to_byte": spread(clocks.relay_ms())}
    if asked.json:
        print(json.dumps(figures | {"tokens_per_s": rate}))
        return
    for name, each in figures.items():
        print(f"{name:18} median {each['p50_ms']:6.2f} ms   p99 {each['p99_ms']:6.2f} ms   of {each['n']}")
    print(f"relayed            {rate:6.0f} tokens/s")


if __name__ == "__main__":
    uvloop.run(main())
