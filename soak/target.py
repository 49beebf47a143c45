"""Who is asked: a base URL, which of the two APIs it speaks, and under which name it serves its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Target:
    """`url` is without `/v1`. `key` is shown to the server if there is one, and never printed."""

    url: str
    model: str
    api: Api = "openai"
    seeds: bool = False
    """Whether draws are asked for with a seed. Some servers take such requests out of their batch."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """More fields of every request, for what only this server knows."""
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    """What else every request shows."""
