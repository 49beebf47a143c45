"""Settings of the parent of the tree: restarts, shedding, the journal, the canary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from .section import Count, Port, Seconds, Section, Share


class Restart(Section):
    """When and how a child that ended is started again."""

    intensity: Count = 5
    """More than this many restarts within `period_s` open the circuit: no more restarts but a probe now and then."""
    period_s: Seconds = 120.0
    """The window in which restarts are counted."""
    backoff_initial_s: Seconds = 0.1
    """Wait before the first restart, less the time for which the child was ready; doubles with each restart inside the
    window."""
    backoff_max_s: Seconds = 30.0
    """Longest wait before a restart."""
    backoff_jitter: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the wait that is random, so that several children do not start in step."""
    probe_s: Seconds = 60.0
    """Once the circuit is open, one restart is tried after this long; it doubles up to an hour."""


class Shedding(Section):
    """When load is turned away because memory is short: the engine's against its limit, or the machine's."""

    thresholds: tuple[Share, Share, Share] = (0.9, 0.95, 0.98)
    """Shares of the memory at which shed levels 1, 2 and 3 begin, in rising order."""
    margin: Share = 0.05
    """A level can end only when memory in use is this much below its threshold."""
    hold_s: Seconds = 15.0
    """How long memory must be below that before the level ends; the next one ends no sooner than as long after it."""

    @field_validator("thresholds")
    @classmethod
    def _rising(cls, thresholds: tuple[float, float, float]) -> tuple[float, float, float]:
        if sorted(set(thresholds)) != list(thresholds):
            raise PydanticCustomError("not_rising", "Input should be three shares, each above the one before")
        return thresholds

    @model_validator(mode="after")
    def _can_end(self) -> Shedding:
        if self.margin >= self.thresholds[0]:
            raise PydanticCustomError("never_ends", "`margin` should be below the first of `thresholds`")
        return self


class Journal(Section):
    """What the watchdog remembers over restarts."""

    url: str | None = None
    """The database, as SQLAlchemy writes it: `postgresql+asyncpg://user:password@host/name` (extra `postgres`);
    absent, the file stoker.db under $STOKER_HOME."""
    full_samples_s: Seconds = 6 * 3600.0
    """For so long every sample is kept, after it one a minute."""
    keep_s: Seconds = 30 * 86400.0
    """For so long samples, verdicts, actions and closed incidents are kept."""


class Canary(Section):
    """Tiny requests that the watchdog sends through the API."""

    every_s: Seconds = 180.0
    """Time between two of them."""
    recheck_s: Seconds = 5.0
    """While the last one was not answered: time between two looks whether that is over."""
    compare_every_s: Seconds = 3600.0
    """Time between two comparisons of an answer with and without the prefix cache."""
    deadline_s: Seconds = 60.0
    """How long an answer may take before the canary counts as unanswered."""


class Sensors(Section):
    """Where the machine is read, on Linux."""

    proc: Path = Path("/proc")
    """The process file system; another path where a container has the host's mounted, with the host's process ids."""
    sys: Path = Path("/sys")
    """The same of `/sys`, for heat and clocks."""


class Watchdog(Section):
    """The parent of the tree and its own HTTP interface."""

    host: str = "127.0.0.1"
    """Address of the watchdog's interface; it is for this machine only."""
    port: Port = 8001
    """Port of the watchdog's interface; 0 lets the system choose."""
    restart: Restart = Restart()
    """Restart policy of every child."""
    shedding: Shedding = Shedding()
    """When load is turned away."""
    journal: Journal = Journal()
    """What is remembered."""
    canary: Canary = Canary()
    """Requests of the watchdog's own."""
    sensors: Sensors = Sensors()
    """Where the machine is read."""
    sample_s: Seconds = 1.0
    """Time between two looks at the machine and the tree."""
    pool_floor_bytes: Count = 1_500_000_000
    """A pool of freed buffers that is smaller is not worth an action."""
    detection_speed: Annotated[float, Field(ge=1)] = 1.0
    """How many seconds pass for detectors and policy in one; more than 1 is for trying them out."""
    stop_deadline_s: Seconds = 10.0
    """How long a child may take to end after SIGTERM before SIGKILL: the service gets its drain deadline on top,
    and each child a second for every 4 GB of memory that it has to give back."""
    start_deadline_s: Seconds = 120.0
    """How long a child may take to become ready before it is restarted; the engine gets a second on top for every
    50 MB of weights."""
    stall_after_s: Seconds = 10.0
    """An engine that has work and finishes no step for this long is replaced, and so is one that sends no heartbeat and
    a service that does not answer. The bound of a step grows by itself while the engine starts and where its steps are
    measured to be slow."""
    restart_drain_s: Seconds = 5.0
    """How long running requests may go on before a planned restart; what is left then pauses and goes on after it."""
    log_lines: Count = 100
    """Last lines of a child's output that are kept with every restart."""
    log_file_bytes: Count = 16 * 1024 * 1024
    """Size at which `$STOKER_HOME/logs/stoker.log` is set aside and a new one begun."""
    log_files: Count = 5
    """How many that were set aside are kept; the oldest goes."""
