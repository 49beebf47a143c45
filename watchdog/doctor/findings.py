"""What a finding is, and which layers a symptom leads to (pure)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

START_AGAIN = "start `stoker serve` again"
"""The configuration and the model's files are read once, at the start."""

WAIT = "wait until it is ready: `stoker status`"


class Layer(StrEnum):
    """From the client's view down."""

    API = "api"
    SERVER = "server"
    ENGINE = "engine"
    RUNTIME = "runtime"
    BACKEND = "backend"
    HARDWARE = "hardware"


class Level(StrEnum):
    """How bad it is; `skipped` says that it could not be looked at, and why."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"


class Symptom(StrEnum):
    """What a person notices."""

    SLOW = "slow"
    CRASH = "crash"
    API = "api"
    SLOWER_OVER_TIME = "slower-over-time"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was `measured`, and what to do about it unless it is well."""

    layer: Layer
    check: str
    level: Level
    measured: str
    remedy: str | None = None


LOOK_FIRST: dict[Symptom, tuple[Layer, ...]] = {
    Symptom.SLOW: (Layer.BACKEND, Layer.RUNTIME, Layer.ENGINE, Layer.HARDWARE),
    Symptom.CRASH: (Layer.ENGINE, Layer.HARDWARE, Layer.RUNTIME, Layer.SERVER),
    Symptom.API: (Layer.API, Layer.SERVER),
    Symptom.SLOWER_OVER_TIME: (Layer.HARDWARE, Layer.ENGINE),
}
"""Where each symptom usually comes from, likeliest first."""


def layers_for(symptom: Symptom | None) -> tuple[Layer, ...]:
    """Which layers to look at, in which order; all of them without a symptom."""
    return tuple(Layer) if symptom is None else LOOK_FIRST[symptom]


def worst(findings: list[Finding]) -> Level:
    """The worst level among them; what was skipped does not count."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.FAILURE, Level.WARNING) if level in levels), Level.OK)
