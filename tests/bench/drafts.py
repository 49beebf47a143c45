"""What drafts gain: the same requests with and without them, in fresh engines that take turns.

Each figure is a median over pairs of engines, since where in memory a process has its weights alone makes up to a tenth
of its speed; of two engines that stay, one would be ahead for all turns.

The demo model is too small to follow "repeat this code" from its own first word on. So its answer has begun: the prompt
asks for the code, and ends within the code's first lines. How much of what follows really is the code is a figure too.
"""

from __future__ import annotations

import asyncio
import operator
import statistics
import tempfile
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from stoker.config import Engine
from stoker.engine.speculative import common_prefix
from tests.bench.one_engine import Bench, Figures, with_engine

TURNS = 6
_CODE = '''class {0}:
    """{1} that belongs to one {2}."""

    def __init__(self, {2}, {3}=0):
        self.{2} = {2}
        self.{3} = {3}
        self.history = []

    def add(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.{3} += amount
        self.history.append(("add", amount))
        return self.{3}

    def take(self, amount):
        if amount > self.{3}:
            raise ValueError("not enough {3}")
        self.{3} -= amount
        self.history.append(("take", amount))
        return self.{3}

    def move(self, other, amount):
        self.take(amount)
        other.add(amount)
        print("Moved", amount, "from", self.{2}, "to", other.{2})

    def describe(self):
        print("Here is the {3} of", self.{2})
        for kind, amount in self.history:
            print(kind, amount)
'''
_NAMES = [
    ("Account", "Money", "owner", "balance"),
    ("Store", "Food", "shop", "stock"),
    ("Library", "Paper", "school", "books"),
    ("Garage", "Metal", "driver", "cars"),
    ("Garden", "Green", "farmer", "plants"),
    ("Tank", "Water", "house", "level"),
    ("Team", "Glory", "trainer", "players"),
    ("Cellar", "Drink", "cook", "bottles"),
]
_TOPICS = ["the sea", "bread", "railways", "honey bees", "glass", "the moon", "tea", "maps"]
_REPEATED_TOKENS = 195
"""What each of the codes, 220 tokens and more, has left after the lines with which the answer begins."""
_LEAD_LINES = 4
_END_OF_TURN = [2]
"""`<|im_end|>` of the demo model, whose prompts these are."""


async def _repeated_code(model: Path) -> Figures:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    codes = [_CODE.format(*names) for names in _NAMES]
    wholes = [_ids(tokenizer, _asked(code) + code) for code in codes]
    prompts = [_ids(tokenizer, _asked(code) + _lead(code)) for code in codes]
    figures = await _gains("repeated code", model, prompts, _REPEATED_TOKENS)

    async def repeat(bench: Bench) -> Figures:
        right = []
        for whole, prompt in zip(wholes, prompts, strict=True):
            tokens = await bench.said(prompt, _REPEATED_TOKENS, _END_OF_TURN)
            right.append(common_prefix(whole[len(prompt) :], tokens) / (len(whole) - len(prompt)))
        return {"repeated code: share that is repeated without a fault": statistics.mean(right)}

    with tempfile.TemporaryDirectory() as folder:
        return figures | await with_engine(Path(folder), model, Engine(), repeat)


async def _prose(model: Path) -> Figures:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    prompts = [_ids(tokenizer, _chat(f"Write a story about {topic}.")) for topic in _TOPICS]
    return await _gains("prose", model, prompts, 160)


def repeated_code(model: Path) -> Figures:
    """Requests to repeat 200 tokens of code, alone and eight at once."""
    return asyncio.run(_repeated_code(model))


def prose(model: Path) -> Figures:
    """Stories, which do not repeat, alone and eight at once."""
    return asyncio.run(_prose(model))


async def _gains(what: str, model: Path, prompts: list[list[int]], max_tokens: int) -> Figures:
    rates: dict[str, list[Figures]] = {"auto": [], "off": []}
    for turn in range(TURNS):
        use = partial(_rates, asked=[prompts[turn : turn + 1], prompts], max_tokens=max_tokens)
        engines = [Engine(speculation="auto"), Engine(speculation="off")]
        for engine in engines if turn % 2 else reversed(engines):
            with tempfile.TemporaryDirectory() as folder:
                rates[engine.speculation].append(await with_engine(Path(folder), model, engine, use))
    figures: Figures = {}
    for count in ("1", str(len(prompts))):
        on, off = ([of_engine[count] for of_engine in rates[speculation]] for speculation in ("auto", "off"))
        figures[f"{what}, {count} at once: tokens/s without drafts"] = statistics.median(off)
        figures[f"{what}, {count} at once: tokens/s"] = statistics.median(on)
        figures[f"{what}, {count} at once: gain"] = statistics.median(map(operator.truediv, on, off))
    return figures


async def _rates(bench: Bench, asked: list[list[list[int]]], max_tokens: int) -> Figures:
    return {str(len(prompts)): await bench.decode_rate(prompts, max_tokens, _END_OF_TURN) for prompts in asked}


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _chat(question: str) -> str:
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def _asked(code: str) -> str:
    return _chat(f"Repeat this code exactly:\n\n```python\n{code}```") + "```python\n"


def _lead(code: str) -> str:
    """Its first lines, without the line break that belongs to a token of what follows."""
    return "\n".join(code.split("\n")[:_LEAD_LINES])
