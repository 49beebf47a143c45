"""The words of the policy: what it is told beside the verdicts, and what it may decide."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .verdicts import DetectorName


class Child(StrEnum):
    """What can be restarted."""

    ENGINE = "engine"
    SERVICE = "service"


class Observe(msgspec.Struct, frozen=True, tag=True):
    """Write it down and tell people; there is nothing that this tree could do better."""


class Reclaim(msgspec.Struct, frozen=True, tag=True):
    """Give memory back, once: 1 the pool, 2 also what the prefix cache can spare."""

    level: int


class Tighten(msgspec.Struct, frozen=True, tag=True):
    """Work in smaller pieces: 1 smaller chunks and no drafts, 2 also half the rows at once. 0 undoes it."""

    level: int


class Shed(msgspec.Struct, frozen=True, tag=True):
    """Turn load away, by the levels of the service's admission, 1 to 3. 0 undoes it."""

    level: int


class EmptyPrefixCache(msgspec.Struct, frozen=True, tag=True):
    """Forget all cached KV, in memory and on disk: it gave a wrong answer."""


class PlannedRestart(msgspec.Struct, frozen=True, tag=True):
    """Drain, then restart. Decided in a quiet minute alone."""

    child: Child


class RestartNow(msgspec.Struct, frozen=True, tag=True):
    """Restart although requests run: drain for the short time that restarts get; what is left pauses and goes on."""

    child: Child


class OpenCircuit(msgspec.Struct, frozen=True, tag=True):
    """Restarts have not helped: decide no more of them until `CloseCircuit`; a person is needed."""


class CloseCircuit(msgspec.Struct, frozen=True, tag=True):
    """Undoes `OpenCircuit`."""


Action = (
    Observe | Reclaim | Tighten | Shed | EmptyPrefixCache | PlannedRestart | RestartNow | OpenCircuit | CloseCircuit
)


class Decision(msgspec.Struct, frozen=True):
    """One action, and why, in one sentence with its numbers."""

    at: float
    action: Action
    sentence: str
    detector: DetectorName
    found: str
    """What the detector said, which is what clients are told."""


class Conditions(msgspec.Struct, frozen=True):
    """What the policy knows beside the verdicts.

    `engine_up_s` is how long the engine has been ready, None while it is not, so that a restart by the supervisor
    counts as one. `quiet_s` is how long no request but canaries has run or waited.
    """

    engine_up_s: float | None
    quiet_s: float
