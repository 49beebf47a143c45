"""What drafts gain: the same requests with and without them, in turn and in one engine.

In one, since where in memory a process has its weights alone makes up to a tenth of its speed. It is told to draft or
not to; what it does to follow its rows while it does not, 0.15 % of a step, is on both sides.

The demo model is too small to follow "repeat this code" from its own first word on. So its answer has begun: the prompt
asks for the code, and ends within the code's first lines. How much of what follows really is the code is a figure too.
"""

from __future__ import annotations

import operator
import statistics
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from stoker.config import Engine
from stoker.engine.speculative import common_prefix
from tests.bench.one_engine import Bench, Figures, in_an_engine

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


async def _repeated_code(bench: Bench, tokenizer: Tokenizer) -> Figures:
    codes = [_CODE.format(*names) for names in _NAMES]
    wholes = [_ids(tokenizer, _asked(code) + code) for code in codes]
    prompts = [_ids(tokenizer, _asked(code) + _lead(code)) for code in codes]
    figures = await _gains("repeated code", bench, prompts, _REPEATED_TOKENS)
    said = [await bench.said(prompt, _REPEATED_TOKENS, _END_OF_TURN) for prompt in prompts]
    right = [
        common_prefix(whole[len(prompt) :], tokens) / (len(whole) - len(prompt))
        for whole, prompt, tokens in zip(wholes, prompts, said, strict=True)
    ]
    return {**figures, "repeated code: share that is repeated without a fault": statistics.mean(right)}


async def _prose(bench: Bench, tokenizer: Tokenizer) -> Figures:
    prompts = [_ids(tokenizer, _chat(f"Write a story about {topic}.")) for topic in _TOPICS]
    return await _gains("prose", bench, prompts, 160)


def repeated_code(model: Path) -> Figures:
    """Requests to repeat 200 tokens of code, alone and eight at once."""
    return in_an_engine(model, Engine(), partial(_repeated_code, tokenizer=_tokenizer(model)))


def prose(model: Path) -> Figures:
    """Stories, which do not repeat, alone and eight at once."""
    return in_an_engine(model, Engine(), partial(_prose, tokenizer=_tokenizer(model)))


async def _gains(what: str, bench: Bench, prompts: list[list[int]], max_tokens: int) -> Figures:
    figures: Figures = {}
    for count in (1, len(prompts)):
        rates: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(TURNS):
            for drafts in (False, True) if turn % 2 else (True, False):
                bench.allow_drafts(drafts)
                asked = prompts[turn : turn + 1] if count == 1 else prompts
                rates[drafts].append(await bench.decode_rate(asked, max_tokens, _END_OF_TURN))
        on, off = rates.values()
        figures[f"{what}, {count} at once: tokens/s without drafts"] = statistics.median(off)
        figures[f"{what}, {count} at once: tokens/s"] = statistics.median(on)
        figures[f"{what}, {count} at once: gain"] = statistics.median(map(operator.truediv, on, off))
    bench.allow_drafts(True)
    return figures


def _tokenizer(model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model / "tokenizer.json"))


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
