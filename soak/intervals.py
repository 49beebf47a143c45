"""What a run writes down of each of its intervals: sums and histograms that can be added up, and what happened.

Times are seconds since 1970, from the wall clock: a run outlives its process, and often its machine's uptime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ..watchdog.detectors.fragmentation import pool_ratio
from ..watchdog.detectors.leak import rests
from ..watchdog.journal.uptime import OFF
from ..watchdog.samples import EngineReading, Sample
from .histogram import Histogram
from .outcome import Failure, Outcome
from .texts import Parting

ENGINE_MLX = "engine, MLX beside weights and KV"
ENGINE_OTHER = "engine, outside MLX"
SERVICE = "service"


class Spell(msgspec.Struct, frozen=True, array_like=True):
    """A time that the tree spent in one state: `up`, `down` or `off` as in the journal."""

    since: float
    until: float
    state: str

    @property
    def seconds(self) -> float:
        return self.until - self.since


class Low(msgspec.Struct, frozen=True, array_like=True):
    """The lowest reading of some memory in an interval, and the load under which it was read."""

    at: float
    value: float
    running: int
    context_tokens: int
    epoch: int


class Act(msgspec.Struct, frozen=True):
    """One act of chaos. `recovered_at` is None when it was not over within its deadline, `note` says what was seen."""

    kind: str
    at: float
    over_at: float | None = None
    recovered_at: float | None = None
    note: str = ""


class IncidentSeen(msgspec.Struct, frozen=True):
    """An incident of the watchdog's as it stood at the interval's end; a later interval's word replaces it."""

    id: str
    kind: str
    opened_at: float
    summary: str
    closed_at: float | None = None
    actions: tuple[str, ...] = ()


class Interval(msgspec.Struct, frozen=True, omit_defaults=True):
    """One interval of one run. Counts are of requests that ended in it."""

    number: int
    since: float
    until: float
    requests: int = 0
    failures: dict[str, int] = {}
    """By class, refusals included."""
    errors: tuple[str, ...] = ()
    """The first few failures, in the server's words."""
    findings: dict[str, int] = {}
    """Texts that cannot be right, by what is wrong with them."""
    resumed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    references: dict[int, str] = {}
    """The first answers to reference questions, by question."""
    compared: int = 0
    """Answers that were compared with the first one to the same question."""
    altered: int = 0
    """Those that are another text, by a token that was drawn otherwise."""
    shifted: int = 0
    """Those in which tokens were lost or repeated."""
    ttft: Histogram = msgspec.field(default_factory=Histogram)
    tpot: Histogram = msgspec.field(default_factory=Histogram)
    disturbed_ttft: Histogram = msgspec.field(default_factory=Histogram)
    """Of requests that met an act of chaos: what that costs is no drift."""
    disturbed_tpot: Histogram = msgspec.field(default_factory=Histogram)
    concurrency: float | None = None
    """Mean rows in the engine."""
    memory: dict[str, float] = {}
    """Mean bytes by kind."""
    lows: dict[str, Low] = {}
    fragmentation: float | None = None
    """The least ratio of freed to live memory while requests ran; None when the pool is too small to matter."""
    deaths: int = 0
    """Of the engine, whoever ordered them."""
    lag_s: float = 0.0
    """By how much the load client itself was late, at p99."""
    spells: tuple[Spell, ...] = ()
    """What the tree was, without a gap from `since` to `until`."""
    incidents: tuple[IncidentSeen, ...] = ()
    acts: tuple[Act, ...] = ()

    @property
    def seconds(self) -> float:
        return self.until - self.since


MOST_ERRORS = 3
_MEMORY: Mapping[str, str] = {
    "weights": "weights_bytes",
    "KV": "kv_bytes",
    "prefix cache": "prefix_cache_bytes",
    "MLX active": "active_bytes",
    "MLX pool": "cache_bytes",
    "engine footprint": "footprint_bytes",
}


class Tally:
    """An interval that is under way."""

    def __init__(self, number: int, since: float) -> None:
        self._now = Interval(number, since, since)
        self._counts = dict.fromkeys(("requests", "resumed", "prompt_tokens", "cached_tokens", "completion_tokens"), 0)
        self._texts = dict.fromkeys(("compared", "altered", "shifted"), 0)
        self._failed: list[tuple[float, Failure, str | None]] = []
        self._findings: dict[str, int] = {}
        self._references: dict[int, str] = {}
        self._means: dict[str, tuple[float, int]] = {}
        self._lows: dict[str, Low] = {}
        self._fragmentation: float | None = None
        self.deaths = 0
        self.lag_s = 0.0

    @property
    def since(self) -> float:
        return self._now.since

    def outcome(self, outcome: Outcome, at: float, disturbed: bool) -> None:
        """A request ended then."""
        if outcome.failure is not None:
            self._failed.append((at, outcome.failure, outcome.error))
            return
        counts = self._counts
        counts["requests"] += 1
        counts["resumed"] += outcome.resumed
        for finding in outcome.findings:
            _count(self._findings, finding.value)
        if outcome.prompt_tokens is not None and outcome.cached_tokens is not None:
            counts["prompt_tokens"] += outcome.prompt_tokens
            counts["cached_tokens"] += outcome.cached_tokens
        counts["completion_tokens"] += outcome.completion_tokens or 0
        now = self._now
        for value, calm, hit in (
            (outcome.ttft_s, now.ttft, now.disturbed_ttft),
            (outcome.tpot_s, now.tpot, now.disturbed_tpot),
        ):
            if value is not None:
                (hit if disturbed else calm).add(value)

    def reference(self, question: int, text: str) -> None:
        """What later answers are compared with."""
        self._references[question] = text

    def compared(self, parting: Parting | None) -> None:
        """An answer was compared with the first one to its question."""
        self._texts["compared"] += 1
        if parting is not None:
            self._texts["shifted" if parting.shifted else "altered"] += 1

    def sample(self, sample: Sample) -> None:
        """The watchdog looked."""
        engine = sample.engine
        running = 0 if engine is None else engine.running or 0
        context = 0 if engine is None else engine.context_tokens or 0
        epoch = 0 if engine is None else engine.epoch
        if engine is not None:
            self._engine(engine, running)
        if sample.service.footprint_bytes is not None:
            self._mean("service footprint", sample.service.footprint_bytes)
        mlx, other = (None, None) if engine is None else rests(engine)
        for signal, value in ((ENGINE_MLX, mlx), (ENGINE_OTHER, other), (SERVICE, sample.service.footprint_bytes)):
            if value is not None and (signal not in self._lows or value < self._lows[signal].value):
                # The service outlives the engine's incarnations.
                of = 0 if signal == SERVICE else epoch
                self._lows[signal] = Low(sample.wall, float(value), running, context, of)

    def _engine(self, engine: EngineReading, running: int) -> None:
        self._mean("running", running)
        for kind, field in _MEMORY.items():
            if (value := getattr(engine, field)) is not None:
                self._mean(kind, value)
        ratio = pool_ratio(engine)
        if running and ratio is not None:
            self._fragmentation = ratio if self._fragmentation is None else min(self._fragmentation, ratio)

    def _mean(self, kind: str, value: float) -> None:
        total, count = self._means.get(kind, (0.0, 0))
        self._means[kind] = (total + value, count + 1)

    def close(
        self, until: float, spells: Iterable[Spell], incidents: Iterable[IncidentSeen], acts: Iterable[Act]
    ) -> Interval:
        """The interval, now that it is over."""
        spells = tuple(spells)
        # Somebody stopped the tree: that it answered nobody then is no failure of its.
        off = [spell for spell in spells if spell.state == OFF]
        failed = [each for each in self._failed if not any(spell.since <= each[0] <= spell.until for spell in off)]
        self._counts["requests"] += len(failed)
        means = {kind: total / count for kind, (total, count) in self._means.items()}
        return msgspec.structs.replace(
            self._now,
            until=until,
            **self._counts,
            **self._texts,
            failures=dict(Counter(failure.value for _, failure, _ in failed)),
            errors=tuple(
                f"{failure.value}: {error or 'nothing was said'}" for _, failure, error in failed[:MOST_ERRORS]
            ),
            findings=self._findings,
            references=self._references,
            concurrency=means.pop("running", None),
            memory=means,
            lows=self._lows,
            fragmentation=self._fragmentation,
            deaths=self.deaths,
            lag_s=self.lag_s,
            spells=spells,
            incidents=tuple(incidents),
            acts=tuple(acts),
        )


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
