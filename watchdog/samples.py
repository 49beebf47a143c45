"""One look at the machine and the tree: what the sensors read, the detectors judge and `stoker watch record` writes.

None is what is not known: no such sensor here, or no reading this time. It is never a 0. Every `…_total` counts up and
starts again with the process that it belongs to. docs/samples.md describes the same words as lines of JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..engine.protocol import Phase
from .errors import BadRecording


class EngineReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """The engine, from its last heartbeat and from what the system says about its process."""

    epoch: int
    """The incarnation; a change means that everything learned about the process is over."""
    pid: int | None = None
    phase: Phase = Phase.READY
    up_s: float | None = None
    """Seconds since it became ready."""
    step_age_s: float | None = None
    """Seconds since the last step ended or, if later, since work reached the idle engine."""
    step_bound_s: float | None = None
    """Seconds that the running step may take, as its measured pace promises; None where nothing is known."""
    running: int | None = None
    waiting: int | None = None
    steps_total: int | None = None
    busy_s_total: float | None = None
    computed_tokens_total: int | None = None
    generated_tokens_total: int | None = None
    """Tokens of outputs alone; `computed_tokens_total` has those of prompts too."""
    requests_total: int | None = None
    """Requests that this incarnation finished."""
    active_bytes: int | None = None
    """MLX's live arrays; weights and KV are part of it."""
    cache_bytes: int | None = None
    """MLX's pool of freed buffers; not part of `active_bytes`."""
    weights_bytes: int | None = None
    kv_bytes: int | None = None
    """KV of running requests and of the prefix cache in memory."""
    prefix_cache_bytes: int | None = None
    """The prefix cache's part of `kv_bytes`."""
    prefix_cache_live_bytes: int | None = None
    """Of `prefix_cache_bytes`, what a request could still use; the rest are holes."""
    footprint_bytes: int | None = None
    """What the system charges the process: physical footprint on macOS, PSS and swap on Linux."""
    swapped_bytes: int | None = None
    """The part of `footprint_bytes` that is in swap."""
    limit_bytes: int | None = None
    """Bound of `active_bytes` + `cache_bytes`; past it the system evicts or the process ends."""
    decode_tokens_per_s: float | None = None
    """Output tokens of all rows together since the sample before, over the time spent in decode steps."""
    batch: float | None = None
    """Mean rows of those steps."""
    context_tokens: int | None = None
    """Tokens in the KV of all running rows together."""
    resources: int | None = None
    """Buffers on the GPU that the engine knows of: arrays of weights, rows and prefix cache."""
    resources_limit: int | None = None
    fds: int | None = None
    fds_limit: int | None = None


class ServiceReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """The service, from its own metrics and from what the system says about its process."""

    pid: int | None = None
    footprint_bytes: int | None = None
    loop_lag_s: float | None = None
    """How late its event loop runs."""
    requests_total: int | None = None
    """Requests that ended, refused ones included."""
    errors_total: int | None = None
    """Those that ended by 5xx or a broken stream; refusals (400, 429, 503 `overloaded`) are none."""
    fds: int | None = None
    fds_limit: int | None = None


class HostReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """The machine."""

    memory_bytes: int | None = None
    available_bytes: int | None = None
    wired_bytes: int | None = None
    pressure_level: int | None = None
    """macOS: 1 normal, 2 warning, 4 critical."""
    pressure_some_share: float | None = None
    """Linux PSI of memory: share of the last 10 s in which some task waited for memory, 0 to 1."""
    pressure_full_share: float | None = None
    """The same, all tasks at once."""
    swap_bytes: int | None = None
    swap_used_bytes: int | None = None
    swap_others_bytes: int | None = None
    """The part of `swap_used_bytes` that belongs to processes outside this tree."""
    swap_in_bytes_total: int | None = None
    swap_out_bytes_total: int | None = None
    thermal_level: int | None = None
    """0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping (macOS; elsewhere the nearest)."""
    throttles_total: int | None = None
    """Times that the hardware slowed down for heat."""
    clock_ratio: float | None = None
    """Present clock over the highest one that the hardware allows, 0 to 1, of a busy core or the GPU."""
    disk_bytes: int | None = None
    """Size of the file system of `$STOKER_HOME`."""
    disk_free_bytes: int | None = None


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the last canary found. `number` counts canaries, so that each one is judged once."""

    number: int
    answered: bool
    duration_s: float
    cache_is_right: bool | None = None
    """Whether the same prompt gave the same tokens with and without the prefix cache; None: not compared."""


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything known at one moment."""

    at: float
    """Seconds of the watchdog's monotonic clock."""
    wall: float
    """Seconds since 1970 (UTC), for people; no decision rests on it."""
    engine: EngineReading | None = None
    """None while no engine process runs."""
    service: ServiceReading = ServiceReading()
    host: HostReading = HostReading()
    canary: Check | None = None
    """The latest one; it stays until the next."""
    engine_deaths_total: int = 0
    """Deaths of the engine that nobody ordered, since the watchdog started."""


def encode(sample: Sample) -> bytes:
    """One line of a recording, without its newline."""
    return msgspec.json.encode(sample)


def decode(lines: Iterable[bytes], origin: str) -> Iterator[Sample]:
    """The samples of a recording; `origin` names it in errors. Raises `BadRecording`.

    A last line that is cut short is left out: a recording ends where its writer was stopped.
    """
    decoder = msgspec.json.Decoder(Sample)
    cut: BadRecording | None = None
    for number, line in enumerate(lines, 1):
        if cut is not None:
            raise cut
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            cut = BadRecording(f"{origin}, line {number} is no sample: {error}. docs/samples.md says what one is.")
            if line.endswith(b"\n"):
                raise cut from error


def read(file: Path) -> Iterator[Sample]:
    """The samples of a file. Raises `BadRecording`."""
    try:
        with file.open("rb") as lines:
            yield from decode(lines, str(file))
    except OSError as error:
        raise BadRecording(f"cannot read the recording {file}: {error}") from error
