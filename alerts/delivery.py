"""One edge on its way to one target: what is known of it, what may come of an attempt, and how people see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from .edge import Edge, Status


class Outcome(StrEnum):
    """What became of a delivery."""

    DELIVERED = "delivered"
    DROPPED = "dropped"
    SILENCED = "silenced"
    """It began and ended in a quiet period."""


class Delivery(msgspec.Struct, frozen=True):
    """One edge for one target. Times are seconds since 1970."""

    target: str
    edge: Edge
    due_at: float
    give_up_at: float
    attempts: int = 0
    claimed: bool = False
    """An attempt is under way, or was when the process died."""
    outcome: Outcome | None = None
    ended_at: float | None = None
    error: str | None = None
    """What came of the last attempt that failed."""

    @property
    def id(self) -> str:
        return delivery_id(self.edge.incident, self.edge.status, self.target)


def delivery_id(incident: str, status: Status, target: str) -> str:
    """Without a full stop, which separates the id from the rest in what Standard Webhooks sign."""
    return f"stoker_{incident}_{status.value}_{target}"


RETRIED = "retried"
"""What metrics call an attempt that is none of these."""


@dataclass(frozen=True)
class Received:
    """The receiver has it."""


@dataclass(frozen=True)
class Failed:
    """It may work later. `after_s` is how long the receiver wants to be left alone."""

    why: str
    after_s: float | None = None


@dataclass(frozen=True)
class Unwanted:
    """It will never work. `gone`: nor will anything else for this target."""

    why: str
    gone: bool = False


Result = Received | Failed | Unwanted


class TargetStatus(msgspec.Struct, frozen=True):
    """One target for people."""

    name: str
    waiting: int
    attempts: int
    """Of what waits, the most."""
    error: str | None
    next_at: float | None
    circuit_open: bool
    gone: bool


class Telling(msgspec.Struct, frozen=True):
    """What the courier says about itself, for people."""

    quiet_until: float | None
    """Seconds since 1970; None when it is not quiet."""
    targets: tuple[TargetStatus, ...]
