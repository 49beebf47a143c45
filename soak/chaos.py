"""What goes wrong on purpose, and when: seeded, so that a run can be repeated. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import msgspec

from ..config import CHAOS_KINDS, CHAOS_RULE, duration_s
from .errors import BadPlan

JITTER = 0.3
"""Share of the period by which an act comes earlier or later."""
CALM_SHARE = 0.05
"""Of the run, at its beginning and at its end: something must be there to be compared with."""

EXPECTS = {
    "kill": {"engine_death", "crashes", "canary", "slowdown"},
    "stop": {"engine_death", "crashes", "canary", "slowdown", "stall"},
    "leak": {"leak", "pressure", "fragmentation", "swap", "engine_death", "slowdown"},
    "disk_full": {"disk", "journal"},
    "collector_down": set[str](),
}
"""The kinds of incidents that each act explains."""
EXPLAINED_S = 660.0
"""For so long after it: the slowest detector that looks back at deaths looks back ten minutes."""


class Rule(msgspec.Struct, frozen=True):
    """One kind of act: every so often, or so many times in the run."""

    kind: str
    every_s: float | None = None
    times: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.times}x" if self.every_s is None else f"{self.kind}:{self.every_s:g}s"


class Planned(msgspec.Struct, frozen=True, order=True):
    """An act to come, in seconds of load since the run began."""

    at_s: float
    kind: str


def rule(text: str) -> Rule:
    """`kill:1m` is about one a minute, `stop:2x` is two in the whole run. Raises `BadPlan`."""
    found = re.fullmatch(CHAOS_RULE, text)
    if found is None:
        raise BadPlan(
            f"`{text}` is no act of chaos; write KIND:EVERY or KIND:TIMESx, as kill:1m or stop:2x, "
            f"with one of {', '.join(CHAOS_KINDS)}"
        )
    if found[2] is not None:
        return Rule(found[1], times=int(found[2]))
    return Rule(found[1], every_s=duration_s(found[3]))


def planned(rules: Sequence[Rule], duration_s: float, seed: int) -> list[Planned]:
    """Every act of a run, in the order of its time."""
    begins, ends = CALM_SHARE * duration_s, (1 - CALM_SHARE) * duration_s
    acts: list[Planned] = []
    for number, each in enumerate(rules):
        draw = random.Random(f"chaos {seed} {number} {each.kind}")
        if each.every_s is None:
            assert each.times is not None
            acts += [Planned(draw.uniform(begins, ends), each.kind) for _ in range(each.times)]
            continue
        at = max(begins, each.every_s)
        while at <= ends:
            acts.append(Planned(at + each.every_s * draw.uniform(-JITTER, JITTER), each.kind))
            at += each.every_s
    return sorted(acts)
