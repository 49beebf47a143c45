"""What the load client adds to what it reports: many streams of a server that writes into each token when it sent it.

The server is a process of its own that does nothing else; both use the system's monotonic clock, so a token's way from
the server's `write` to the client's record is seen alone. Run with

    python -m tests.bench.load_client [--streams 200] [--rate 20] [--seconds 20] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import uvloop

from stoker.soak.bench.figures import arrivals
from stoker.soak.lag import lag_of
from stoker.soak.load import drive
from stoker.soak.outcome import Outcome
from stoker.soak.target import Target
from stoker.soak.workloads import Conversation, Message, Turn

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%.6f "},"finish_reason":null}]}\n\n'
_END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'


class Streams:
    """A closed loop of conversations of one question each, whose answers have `tokens` tokens."""

    name = "streams"

    def __init__(self, streams: int, tokens: int) -> None:
        self.streams = streams
        self._tokens = tokens

    def conversations(self) -> Iterator[Conversation]:
        for number in range(1_000_000):
            yield Conversation("streams", number, (Turn((Message("user", "Go."),), self._tokens),))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    asked = json.loads(await reader.readexactly(length))
    writer.write(_HEAD)
    loop = asyncio.get_running_loop()
    due = loop.time()
    for _ in range(asked["max_tokens"]):
        due += 1 / rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        writer.write(_EVENT % time.monotonic())
    writer.write(_END)
    writer.close()


async def serve(rate: float) -> None:
    """Until killed; prints its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await _answer(reader, writer, rate)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def measure(streams: int, rate: float, seconds: float) -> dict[str, Any]:
    """Milliseconds that the client added, by the server's stamps and by its own account."""
    command = [sys.executable, "-m", "tests.bench.load_client", "--serve", "--rate", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            target = Target(f"http://127.0.0.1:{int(server.stdout.readline())}", "none")
            return uvloop.run(_measure(target, streams, rate, seconds))
        finally:
            server.kill()


async def _measure(target: Target, streams: int, rate: float, seconds: float) -> dict[str, Any]:
    outcomes: list[Outcome] = []
    began = time.monotonic()
    lag = await drive(
        target,
        Streams(streams, round(rate * seconds / 2)),
        on_outcome=outcomes.append,
        until=began + seconds,
        clock=time.monotonic,
    )
    late = [
        seen - float(sent)
        for outcome in outcomes
        for seen, sent in zip(arrivals(outcome), outcome.text.split(), strict=False)
        # What arrives together is one arrival, so only where none did can stamps and arrivals be paired.
        if len(outcome.gaps) + 1 == len(outcome.text.split())
    ]
    return {
        "streams": streams,
        "tokens_per_s": sum(len(outcome.text.split()) for outcome in outcomes) / (time.monotonic() - began),
        "failed": sum(not outcome.ok for outcome in outcomes),
        "compared": len(late),
        "added": _milliseconds(dataclasses.asdict(lag_of(late))),
        "own_account": _milliseconds(dataclasses.asdict(lag)),
        "bottleneck": lag.bottleneck,
    }


def _milliseconds(lag: dict[str, float]) -> dict[str, float]:
    return {name.replace("_s", "_ms"): round(value * 1000, 3) for name, value in lag.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        uvloop.run(serve(asked.rate))
        return
    figures = measure(asked.streams, asked.rate, asked.seconds)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:14} {value}")


if __name__ == "__main__":
    main()
