"""Kinds of conversations as data: how long their parts are, how often they go on, and what they have in common."""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass

from . import words
from .conversation import Conversation, Message, Turn

SYSTEM = "You are a helpful assistant. "


@dataclass(frozen=True, slots=True)
class Span:
    """A number between two, drawn so that small ones are as frequent as large ones on a logarithmic scale."""

    low: int
    high: int

    def draw(self, source: random.Random, scale: float = 1.0) -> int:
        """At least one, unless it is always none."""
        if self.high == 0:
            return 0
        low, high = max(self.low, 1), max(self.high, 1)
        return max(1, round(scale * low * math.pow(high / low, source.random())))


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of conversation. Lengths are tokens, about."""

    name: str
    asked: Span
    """Of what a user says at each turn."""
    answered: Span
    turns: Span = Span(1, 1)
    system_tokens: int = 0
    """Of the system prompt, the same for all conversations that share it."""
    systems: int = 1
    """Different system prompts there are: users with a project each."""
    tools: int = 0
    """How many are described at the end of it."""
    results: Span = Span(0, 0)
    """Of a tool's result, which each turn after the first begins with."""
    pause_s: float = 0.0
    """Mean time that a user, or a tool, takes before the next turn."""
    repeats_code: bool = False
    """A turn hands over code and asks for it with a small change: what prompt-lookup drafting is made for."""

    def conversation(self, number: int, seed: int, at: float | None, scale: float, pauses: float) -> Conversation:
        """The one of this number; `scale` multiplies the lengths of its texts, `pauses` its pauses."""
        # Lengths and texts are drawn apart: a shorter text must not change what is drawn after it.
        draw, text = random.Random(f"{self.name} {seed} {number}"), random.Random(f"{self.name} {seed} {number} text")
        turns = []
        for turn in range(self.turns.draw(draw)):
            said = self._said(_Lengths(draw, scale), text, f"Task {number}.{turn}.", goes_on=turn > 0)
            pause = draw.expovariate(1 / self.pause_s) if turn and self.pause_s else 0.0
            turns.append(Turn((Message("user", said),), self.answered.draw(draw, scale), pauses * pause))
        if self.system_tokens:
            system = Message("system", _system(self, seed, draw.randrange(self.systems), scale))
            turns[0] = Turn((system, *turns[0].adds), turns[0].max_tokens)
        # Half of them are greedy: those answers must be the same whenever, and beside whatever, they are asked.
        temperature = 0.0 if number % 2 else 0.7
        return Conversation(self.name, number, tuple(turns), at, temperature, draw.randrange(2**31))

    def _said(self, lengths: _Lengths, text: random.Random, tag: str, goes_on: bool) -> str:
        """The tag comes first, so that nothing but what is meant to be shared is found in a prefix cache."""
        size, result = lengths.draw(self.asked), lengths.draw(self.results) if goes_on else 0
        said = f"{tag} The tool answered: {words.prose(text, result)}\n" if result else f"{tag} "
        if self.repeats_code:
            return f"{said}{words.RENAME}\n\n```python\n{words.code(text, size)}\n```"
        return f"{said}{words.prose(text, size)} {words.task(text)}"


@dataclass(frozen=True, slots=True)
class _Lengths:
    source: random.Random
    scale: float

    def draw(self, span: Span) -> int:
        return span.draw(self.source, self.scale)


@functools.cache
def _system(shape: Shape, seed: int, which: int, scale: float) -> str:
    """Long, and the same for many. Tools are described in it, as agents do for models whose templates know none."""
    draw = random.Random(f"{shape.name} system {seed} {which}")
    tools = [words.tool(number) for number in range(round(shape.tools * scale))]
    left = round(shape.system_tokens * scale) - len(tools) * words.TOOL_TOKENS
    return "\n".join([SYSTEM + words.prose(draw, left), *tools])
