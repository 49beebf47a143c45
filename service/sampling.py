"""How tokens are chosen: what a request asks for, over what the model's makers recommend, over what an API assumes."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from ..engine.protocol import Sampling

SEED_MASK = 2**63 - 1
RECOMMENDABLE = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass(frozen=True)
class Wishes:
    """Parameters of sampling that somebody has an opinion on; None has none."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None

    def over(self, others: Wishes) -> Wishes:
        """These, and where there is none, the others'."""
        mine = ((field.name, getattr(self, field.name)) for field in fields(self))
        return Wishes(**{name: getattr(others, name) if value is None else value for name, value in mine})


NO_WISHES = Wishes()


def sampling(wishes: Wishes, recommended: Wishes, seed: int | None, top_logprobs: int | None = None) -> Sampling:
    """What the engine is told. Without a seed a random one, so that a resume goes on exactly."""
    stated = wishes.over(recommended)
    return Sampling(
        seed=secrets.randbits(63) if seed is None else seed & SEED_MASK,
        top_logprobs=top_logprobs,
        **{field.name: value for field in fields(stated) if (value := getattr(stated, field.name)) is not None},
    )


def for_choice(first: Sampling, choice: int) -> Sampling:
    """The sampling of one of several answers to a request: seeds of their own, the same each time; 0 is the first."""
    if choice == 0:
        return first
    digest = hashlib.sha256(f"{first.seed}/{choice}".encode()).digest()
    return msgspec.structs.replace(first, seed=int.from_bytes(digest[:8]) & SEED_MASK)


def recommended_by(folder: Path) -> Wishes:
    """What `generation_config.json` in a model's folder recommends; `do_sample: false` is a temperature of 0."""
    path = folder / "generation_config.json"
    settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    given = Wishes(**{name: settings.get(name) for name in RECOMMENDABLE})
    return Wishes(temperature=0.0).over(given) if settings.get("do_sample") is False else given
