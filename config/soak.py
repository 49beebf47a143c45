"""Settings of soak runs: the bounds that they must keep, and when they come by themselves."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from .section import Seconds, Section

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
CHAOS_KINDS = ("kill", "stop", "leak", "disk_full", "collector_down")
CHAOS_RULE = rf"({'|'.join(CHAOS_KINDS)}):(?:([1-9]\d{{0,3}})x|([1-9]\d{{0,6}}[smhd]))"


def duration_s(text: Any) -> Any:
    """`90s`, `10m`, `72h` or `3d` in seconds. Raises `ValueError` for other text; what is no text is left alone."""
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd])", text)
    if found is None or not float(found[1]):
        raise ValueError(f"`{text}` is no time; write it like 90s, 10m, 72h or 3d")
    return float(found[1]) * _UNITS_S[found[2]]


Duration = Annotated[Seconds, BeforeValidator(duration_s)]
AnyShare = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ChaosRule = Annotated[str, Field(pattern=rf"^{CHAOS_RULE}$")]


class Gates(Section):
    """What a soak run must keep to pass. They are written down before it begins, and no run is judged by others."""

    error_share: AnyShare = 0.001
    """Most of the requests that may fail by 5xx, a broken stream or silence; refusals are none."""
    crashes_per_hour: NotNegative = 0.0
    """Most deaths of the engine that no act of chaos ordered."""
    uptime_share: AnyShare = 0.999
    """Least of the time in which the tree is up, the recovery from acts of chaos left out."""
    recover_within_s: Seconds = 60.0
    """How long the tree may take to be ready again after an act of chaos."""
    drift_ratio: Annotated[float, Field(gt=1)] = 1.5
    """Most that the p95 of TTFT and of TPOT may be in the last quarter, over that of the first."""
    memory_bytes_per_hour: NotNegative = 5e6
    """Most that memory may surely grow, load left out, in the engine or in the service."""
    memory_growth_bytes: NotNegative = 50e6
    """Growth below this over the whole run is none, however fast it is: it decides in short runs."""
    fragmentation_ratio: NotNegative = 2.0
    """Most that MLX's pool of freed buffers may be at the end, over what MLX has in use."""
    cache_hit_share: AnyShare | None = None
    """Least of the prompt tokens that the prefix cache must have had; absent, what the workload is made for."""
    incidents: Annotated[int, Field(ge=0)] = 0
    """Most incidents that no act of chaos explains."""


class Scheduled(Section):
    """A soak run that comes by itself."""

    cron: str
    """When: minute, hour, day, month, weekday, as `0 2 * * sat`; in this machine's time zone."""
    duration: Duration
    """How long: `1h`, `72h`."""
    workload: str = "mixed"
    """What is asked."""
    scale: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Share of the workload's lengths that is asked for; less is for slow machines."""
    chaos: tuple[ChaosRule, ...] = ()
    """What goes wrong on purpose, as `kill:1h` or `stop:2x`."""
    even_when_busy: bool = False
    """Begin at the time, whoever is served."""


class Soak(Section):
    """Soak runs: hours or days of load with a verdict."""

    gates: Gates = Gates()
    """The bounds of a verdict."""
    schedule: tuple[Scheduled, ...] = ()
    """Runs that come by themselves, each a `[[soak.schedule]]` with `cron` and `duration`."""
    quiet_s: Seconds = 300.0
    """A scheduled run begins once nobody has asked anything for so long."""
    postpone_s: Seconds = 12 * 3600.0
    """How long it waits for that before it is left out."""
