"""Recorded traffic played again: times, lengths and shared prefixes of a JSONL file, with texts made to fit.

A line is a request as in Mooncake's traces (https://github.com/kvcache-ai/Mooncake): `timestamp` in milliseconds,
`input_length` and `output_length` in tokens, and `hash_ids`, one for each block of the prompt: two prompts that begin
with the same ids begin with the same tokens. Nothing else is read, so nothing private is needed.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ..errors import TraceUnusable
from . import words
from .arrivals import Closed
from .conversation import Conversation, Message, Turn

_TAIL_TOKENS = 12
"""Of the question at the end, which makes a model write for long."""


class Request(msgspec.Struct, frozen=True):
    """One line."""

    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: Annotated[int, msgspec.Meta(ge=1)]
    output_length: Annotated[int, msgspec.Meta(ge=0)]
    hash_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A workload. Open, it ends with its last request; closed, it begins anew with other texts."""

    name: str
    requests: tuple[Request, ...]
    block_tokens: int
    closed: Closed | None
    seed: int
    scale: float
    pauses: float

    @property
    def streams(self) -> int | None:
        """As many as its arrivals hold at once."""
        return None if self.closed is None else self.closed.streams

    def conversations(self) -> Iterator[Conversation]:
        """A conversation a line: what belongs together shows in the ids alone."""
        rounds = itertools.count() if self.closed is not None else range(1)
        played = ((round_, request) for round_ in rounds for request in self.requests)
        for number, (round_, request) in enumerate(played):
            at = None if self.closed is not None else request.timestamp / 1000 * self.pauses
            said = self._prompt(request, round_, number)
            turn = Turn((Message("user", said),), max(1, round(request.output_length * self.scale)))
            temperature = 0.0 if number % 2 else 0.7
            yield Conversation(self.name, number, (turn,), at, temperature, number)

    def _prompt(self, request: Request, round_: int, number: int) -> str:
        draw = random.Random(f"{self.seed} {round_} {number}")
        left, parts = float(request.input_length - _TAIL_TOKENS), []
        for each in request.hash_ids:
            # The last block is seldom full.
            tokens = min(self.block_tokens, left)
            if tokens > 0:
                parts.append(_block(self.seed, round_, each, round(tokens * self.scale)))
            left -= tokens
        if left > 0:
            parts.append(words.prose(draw, round(left * self.scale)))
        return "\n".join([*parts, words.task(draw)])


@functools.lru_cache(maxsize=4096)
def _block(seed: int, round_: int, number: int, tokens: int) -> str:
    return words.prose(random.Random(f"{seed} {round_} block {number}"), tokens)


def read(file: Path, closed: Closed | None, seed: int, scale: float, pauses: float) -> Trace:
    """Raises `TraceUnusable`."""
    try:
        lines = [line for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise TraceUnusable(f"cannot read the trace {file}: {error}") from error
    requests = tuple(_request(file, number, line) for number, line in enumerate(lines, 1))
    if not requests:
        raise TraceUnusable(f"{file} has no request; a line of it is one, as in Mooncake's traces")
    ordered = tuple(sorted(requests, key=lambda request: request.timestamp))
    return Trace(file.stem, ordered, _block_tokens(ordered), closed, seed, scale, pauses)


def _request(file: Path, number: int, line: bytes) -> Request:
    try:
        return msgspec.json.decode(line, type=Request)
    except msgspec.DecodeError as error:
        raise TraceUnusable(f"{file}, line {number}: {error}; see docs/benchmarks.md for what a line holds") from error


def _block_tokens(requests: Sequence[Request]) -> int:
    """How many tokens an id stands for: the least that is enough for every prompt. In Mooncake's traces that is 512."""
    return max((math.ceil(each.input_length / len(each.hash_ids)) for each in requests if each.hash_ids), default=1)
