"""Texts of about so many tokens, of common English words; seeded, so that they are new to a cache or known to it."""

from __future__ import annotations

import json
import random

TOOL_TOKENS = 107
"""Of one tool's description."""
TOKENS_PER_WORD = 1.09
"""Of the words below, punctuation included; like the other numbers here, measured with SmolLM2's tokenizer."""

_TEXT = (
    "the old house near river stood between two tall trees and nobody had lived there for many years but every spring "
    "someone came to open windows let in fresh air and count what winter had left people in town said that it was a "
    "teacher who once worked at school others thought of an engineer with plans for bridge over water they were all "
    "wrong because truth was simple small and kind a woman from market loved quiet rooms long letters good bread new "
    "maps and sound of rain on roof she wrote about weather price of apples first snow late trains and names of birds "
    "that children asked her about then one day after lunch she found under floor a box full of paper with numbers "
    "dates and drawings of machine nobody could explain so she took it to library where three friends began to read"
)
_WORDS = _TEXT.split()
SUBJECTS = ("the sea", "bread", "railways", "honey bees", "glass", "the moon", "tea", "maps", "bridges", "winter")
RENAME = "Repeat this program, and rename `total` to `count`; answer with the program alone."
TASKS = (
    "Write a story about {}.",
    "Explain {} to a child.",
    "Tell me the history of {}.",
    "What should everybody know about {}?",
    "Describe a day that has to do with {}.",
)


def prose(draw: random.Random, tokens: int) -> str:
    """Sentences without much sense, in ordinary words."""
    # `choices` draws 30,000 words in milliseconds, in which no arrival is seen.
    words = draw.choices(_WORDS, k=max(1, round(tokens / TOKENS_PER_WORD)))
    for end in range(0, len(words), 12):
        words[end] = words[end].capitalize()
        last = min(end + 11, len(words) - 1)
        words[last] += "."
    return " ".join(words)


def task(draw: random.Random) -> str:
    """Something that a model can write about for long."""
    return draw.choice(TASKS).format(draw.choice(SUBJECTS))


def tool(number: int) -> str:
    """One tool's description, in OpenAI's form."""
    verb = ("read", "search", "list", "write", "run", "compare")[number % 6]
    properties = {
        "path": {"type": "string", "description": f"The file or folder to {verb}, relative to the project's root."},
        "limit": {"type": "integer", "description": "How many lines of the result are wanted at most."},
    }
    function = {
        "name": f"{verb}_{number}",
        "description": f"{verb.capitalize()} what is asked for, and return it as text.",
        "parameters": {"type": "object", "properties": properties, "required": ["path"]},
    }
    return json.dumps({"type": "function", "function": function})


def code(draw: random.Random, tokens: int) -> str:
    """A program of about so many tokens, in which names repeat as they do in programs."""
    nouns = [word for word in _WORDS if len(word) > 3]
    lines = []
    for _ in range(max(1, tokens // _FUNCTION_TOKENS)):
        one, other = draw.sample(nouns, 2)
        lines.append(_FUNCTION.format(name=one, value=other, number=draw.randrange(2, 90)))
    return "\n\n".join(lines)


_FUNCTION = '''def count_{name}({value}, limit={number}):
    """How many of {value} are {name}."""
    total = 0
    for each in {value}:
        if each.{name} and total < limit:
            total += each.{name}
    return total'''
_FUNCTION_TOKENS = 53
