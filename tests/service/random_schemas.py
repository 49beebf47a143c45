"""Random JSON schemas whose every instance is short, so that an answer under one always comes to its end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Schema = dict[str, Any]


def random_schema(random: Random, depth: int = 2) -> Schema:
    """An object's; its properties nest up to `depth` levels."""
    names = [f"{random.choice('abcdefgh')}{number}" for number in range(random.randint(1, 4))]
    return {
        "type": "object",
        "properties": {name: _value(random, depth) for name in names},
        "required": [name for name in names if random.random() < 0.7],
        "additionalProperties": False,
    }


def _value(random: Random, depth: int) -> Schema:
    kinds: list[Callable[[], Schema]] = [
        lambda: {"type": "string", "maxLength": random.randint(1, 6)},
        lambda: {"type": "string", "pattern": random.choice(["^[a-z]{2,4}$", "^[0-9]{4}-[0-9]{2}$", "^(yes|no)$"])},
        lambda: {"type": "integer", "minimum": random.randint(-50, 0), "maximum": random.randint(1, 500)},
        lambda: {"type": "boolean"},
        lambda: {"type": "null"},
        lambda: {"const": random.choice(["fixed", 7, None, True])},
        lambda: {"enum": random.sample(["red", "green", "blue", 1, 2.5, None, False], random.randint(1, 4))},
    ]
    if depth:
        kinds += [
            lambda: random_schema(random, depth - 1),
            lambda: {
                "type": "array",
                "items": _value(random, depth - 1),
                "minItems": random.randint(0, 1),
                "maxItems": random.randint(1, 3),
            },
            lambda: {"anyOf": [_value(random, depth - 1), _value(random, depth - 1)]},
        ]
    return random.choice(kinds)()
