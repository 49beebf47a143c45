"""The workloads by name. Each is one or more shapes, mixed by weight, and a rhythm in which they begin."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UnknownWorkload
from . import trace
from .arrivals import Arrivals, Bursts, Closed
from .conversation import Conversation, Workload
from .shapes import Shape, Span

CHAT = Shape("chat", asked=Span(20, 400), answered=Span(40, 300), turns=Span(1, 6), pause_s=5.0)
AGENT = Shape(
    "agent",
    asked=Span(20, 60),
    answered=Span(30, 250),
    turns=Span(6, 30),
    system_tokens=8000,
    systems=3,
    tools=12,
    results=Span(100, 2000),
    pause_s=1.0,
)
LONG_CONTEXT = Shape("long-context", asked=Span(8000, 30000), answered=Span(100, 400))
ECHO = Shape("echo", asked=Span(200, 1500), answered=Span(200, 1500), repeats_code=True)


@dataclass(frozen=True, slots=True)
class Seeded:
    """A workload of the catalog with its seed."""

    name: str
    mix: tuple[tuple[Shape, float], ...]
    arrivals: Arrivals
    seed: int
    scale: float
    pauses: float

    @property
    def streams(self) -> int | None:
        """As many as its arrivals hold at once."""
        return self.arrivals.streams

    def conversations(self) -> Iterator[Conversation]:
        """Without an end."""
        draw = random.Random(f"{self.name} {self.seed}")
        shapes, weights = zip(*self.mix, strict=True)
        for number, at in enumerate(self.arrivals.times(self.seed)):
            (shape,) = draw.choices(shapes, weights)
            yield shape.conversation(number, self.seed, at, self.scale, self.pauses)


_CATALOG: dict[str, tuple[tuple[tuple[Shape, float], ...], Arrivals]] = {
    "chat": (((CHAT, 1.0),), Closed(8)),
    "agent": (((AGENT, 1.0),), Closed(4)),
    "long-context": (((LONG_CONTEXT, 1.0),), Closed(1)),
    "echo": (((ECHO, 1.0),), Closed(4)),
    "burst": (((replace(CHAT, name="burst", turns=Span(1, 1)), 1.0),), Bursts(size=16, every_s=60.0)),
    "mixed": (((CHAT, 0.5), (AGENT, 0.3), (ECHO, 0.15), (LONG_CONTEXT, 0.05)), Closed(8)),
}
NAMES = tuple(_CATALOG)


def workload(
    name: str, seed: int = 1, arrivals: Arrivals | None = None, scale: float = 1.0, pauses: float = 1.0
) -> Workload:
    """The one of that name, with its own arrivals unless others are given; `….jsonl` is a recorded trace.

    Raises `UnknownWorkload` and `TraceUnusable`.

    `scale` multiplies the lengths of its texts and `pauses` the time that users and tools take: 1 is what they do, less
    is for slow machines and tests.
    """
    if name.endswith(".jsonl"):
        return trace.read(Path(name), arrivals if isinstance(arrivals, Closed) else None, seed, scale, pauses)
    if name not in _CATALOG:
        raise UnknownWorkload(
            f"there is no workload {name!r}; there are {', '.join(NAMES)}, and traces in files that end with .jsonl"
        )
    mix, own = _CATALOG[name]
    return Seeded(name, mix, arrivals or own, seed, scale, pauses)
