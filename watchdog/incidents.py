"""Incidents: from the first firing verdict to the moment that it has been well for a while, one at a time a finding.

The one writer of what is open. Whoever finds something, a detector or the journal or a supervisor, reports here; the
journal keeps it, the metrics count it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import structlog

from .journal.records import Incident
from .verdicts import Cause, DetectorName, Level, Verdict

ENGINE_DEATH, SERVICE_DEATH, JOURNAL, SOAK = "engine_death", "service_death", "journal", "soak"
"""Kinds that no detector finds."""

log = structlog.get_logger(__name__)


class Observer(Protocol):
    """Who counts incidents."""

    def incident_opened(self, kind: str) -> None:
        """One more began."""

    def incident_closed(self, kind: str) -> None:
        """It is over."""


@dataclass(frozen=True)
class _Open:
    incident: Incident
    well_since: float | None = None


class Incidents:
    """What is wrong at the moment. Times for the wall come from `clock`; those of verdicts are the samples' own."""

    def __init__(
        self, put: Callable[[Incident], None], observer: Observer, clock: Callable[[], float], closes_after_s: float
    ) -> None:
        """A finding's incident ends when it has been well for `closes_after_s`, by the samples' clock."""
        self._put = put
        self._observer = observer
        self._clock = clock
        self._closes_after_s = closes_after_s
        self._open: dict[str, _Open] = {}

    @property
    def open(self) -> list[Incident]:
        """Oldest first."""
        return [each.incident for each in self._open.values()]

    def of(self, detector: DetectorName) -> str | None:
        """The id of a detector's open incident, for what is done about it."""
        found = (each.incident.id for key, each in self._open.items() if key.partition("/")[0] == detector.value)
        return next(found, None)

    def judge(self, verdicts: Iterable[Verdict], at: float) -> None:
        """Open and close by what the detectors say."""
        said = {verdict.detector: verdict for verdict in verdicts}
        for verdict in said.values():
            if verdict.level is Level.FIRING:
                self._found(verdict)
        for key, each in list(self._open.items()):
            name, slash, cause = key.partition("/")
            if slash and name in said:
                self._look_again(key, each, said[DetectorName(name)], cause, at)

    def begin(self, kind: str, summary: str, evidence: dict[str, Any] | None = None) -> None:
        """Something is wrong that no detector says; nothing happens while the same kind is open."""
        self._begin(kind, kind, summary, evidence or {})

    def end(self, kind: str) -> None:
        """It is over; nothing happens when it never began."""
        each = self._open.pop(kind, None)
        if each is not None:
            closed = msgspec.structs.replace(each.incident, closed_at=self._clock())
            log.info("incident_closed", kind=closed.kind, summary=closed.summary)
            self._put(closed)
            self._observer.incident_closed(closed.kind)

    def _found(self, verdict: Verdict) -> None:
        key = f"{verdict.detector.value}/{_name(verdict.cause)}"
        if key in self._open:
            self._open[key] = _Open(self._open[key].incident)
        else:
            self._begin(key, verdict.detector.value, verdict.sentence, evidence(verdict))

    def _look_again(self, key: str, each: _Open, verdict: Verdict, cause: str, at: float) -> None:
        """Suspicion keeps it open, unless of another cause."""
        if verdict.level is not Level.OK and _name(verdict.cause) == cause:
            return
        if each.well_since is None:
            self._open[key] = _Open(each.incident, at)
        elif at - each.well_since >= self._closes_after_s:
            self.end(key)

    def _begin(self, key: str, kind: str, summary: str, numbers: dict[str, Any]) -> None:
        if key in self._open:
            return
        incident = Incident(uuid.uuid4().hex, kind, self._clock(), summary, numbers)
        self._open[key] = _Open(incident)
        log.warning("incident_opened", kind=kind, summary=summary)
        self._put(incident)
        self._observer.incident_opened(kind)


def evidence(verdict: Verdict) -> dict[str, Any]:
    """What a verdict rests on, for the journal."""
    return {
        **{number.value: value for number, value in verdict.numbers.items()},
        "window_s": verdict.window_s,
        "confidence": verdict.confidence,
        "cause": verdict.cause,
    }


def _name(cause: Cause | None) -> str:
    return "" if cause is None else cause.value
