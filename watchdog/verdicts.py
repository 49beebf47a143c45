"""What a detector says about the samples that it has seen: how bad, by which numbers, in one sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from .samples import Sample


class DetectorName(StrEnum):
    """The detectors, by the name that metrics, the journal and people use."""

    PRESSURE = "pressure"
    LEAK = "leak"
    FRAGMENTATION = "fragmentation"
    SWAP = "swap"
    THERMAL = "thermal"
    STALL = "stall"
    SLOWDOWN = "slowdown"
    ERRORS = "errors"
    CRASHES = "crashes"
    RESOURCES = "resources"
    DESCRIPTORS = "descriptors"
    DISK = "disk"
    CANARY = "canary"


class Level(StrEnum):
    """`suspect` is worth a look and no action that costs anything; only `firing` is alerted and acted upon."""

    OK = "ok"
    SUSPECT = "suspect"
    FIRING = "firing"


class Cause(StrEnum):
    """Which of several causes it is, where the remedy depends on it."""

    OURS = "ours"
    """Swap and pressure: this tree's own memory."""
    OTHERS = "others"
    """Swap and pressure: programs outside this tree; no restart of ours helps."""
    POOL = "pool"
    """Fragmentation: MLX's freed buffers."""
    PREFIX_CACHE = "prefix_cache"
    """Fragmentation: holes in the prefix cache's memory."""
    ENGINE = "engine"
    """Descriptors: the engine's."""
    SERVICE = "service"
    """Descriptors: the service's."""
    WRONG = "wrong"
    """Canary: the prefix cache changed an answer."""
    LATE = "late"
    """Canary: answered, but far later than usual."""
    UNANSWERED = "unanswered"
    """Canary: no answer at all."""


class Number(StrEnum):
    """The numbers that a verdict may rest on; the unit is the name's end (`share` and `ratio` have none)."""

    SLOPE_BYTES_PER_HOUR = "slope_bytes_per_hour"
    SLOPE_LOWER_BOUND_BYTES_PER_HOUR = "slope_lower_bound_bytes_per_hour"
    EXHAUSTION_SECONDS = "exhaustion_seconds"
    """Until the memory's limit is reached at the slope."""
    GROWTH_BYTES = "growth_bytes"
    HEADROOM_BYTES = "headroom_bytes"
    FRAGMENTATION_RATIO = "fragmentation_ratio"
    """Memory held but not used, over memory in use."""
    HELD_BYTES = "held_bytes"
    LIVE_BYTES = "live_bytes"
    MEMORY_SHARE = "memory_share"
    """Memory in use over what there is, 0 to 1."""
    SHED_LEVEL = "shed_level"
    """How much load to turn away at once, 0 to 3; however long it fires, it is no more than that."""
    PRESSURE_SHARE = "pressure_share"
    SWAP_USED_BYTES = "swap_used_bytes"
    SWAP_OUT_BYTES_PER_MINUTE = "swap_out_bytes_per_minute"
    SWAP_IN_BYTES_PER_MINUTE = "swap_in_bytes_per_minute"
    OTHERS_SHARE = "others_share"
    """Share of the growth that is due to other programs, 0 to 1."""
    THERMAL_LEVEL = "thermal_level"
    CLOCK_RATIO = "clock_ratio"
    THROTTLES_PER_MINUTE = "throttles_per_minute"
    SLOWDOWN_RATIO = "slowdown_ratio"
    """Usual decode speed at this batch and context over the present one; 2 is half as fast."""
    STEP_AGE_SECONDS = "step_age_seconds"
    BOUND_SECONDS = "bound_seconds"
    ERROR_SHARE = "error_share"
    REQUESTS = "requests"
    DEATHS = "deaths"
    USED_SHARE = "used_share"
    """Of a limit: descriptors, resources, disk; 0 to 1."""
    FREE_BYTES = "free_bytes"
    DURATION_SECONDS = "duration_seconds"
    MISSED = "missed"
    """Canaries in a row."""


class Verdict(msgspec.Struct, frozen=True):
    """One detector's judgement; OK verdicts have the numbers too, as far as they are known.

    `window_s` is how much time the numbers stand for, `confidence` (0 to 1) how sure they are: what a statistical test
    says for the leak, the share of the evidence that agrees for the others.
    """

    detector: DetectorName
    level: Level
    sentence: str
    numbers: dict[Number, float] = {}
    window_s: float = 0.0
    confidence: float = 0.0
    cause: Cause | None = None


class Detector(Protocol):
    """Incremental: memory is bounded, time comes from the samples alone, one sample costs microseconds."""

    def update(self, sample: Sample) -> Verdict:
        """Judge everything seen so far, this sample included. Samples come in order of `at`, with any gaps."""
        ...
