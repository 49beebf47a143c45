"""Incidents, from the first firing verdict to the moment that it has been well for a while."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.watchdog.incidents import Incidents
from stoker.watchdog.journal.records import Incident, Record
from stoker.watchdog.verdicts import Cause, DetectorName, Level, Number, Verdict

CLOSES_AFTER_S = 60.0


class Book:
    """Incidents on a clock to turn, and everything that they told."""

    def __init__(self) -> None:
        self.at = 0.0
        self.kept: dict[str, Incident] = {}
        self.balance: dict[str, int] = {}
        self.incidents = Incidents(self._put, self, lambda: 1000.0 + self.at, CLOSES_AFTER_S)

    def _put(self, record: Record) -> None:
        assert isinstance(record, Incident)
        self.kept[record.id] = record

    def incident_opened(self, kind: str) -> None:
        self.balance[kind] = self.balance.get(kind, 0) + 1

    def incident_closed(self, kind: str) -> None:
        self.balance[kind] -= 1

    def see(self, level: Level, seconds: float = 1.0, cause: Cause | None = None) -> None:
        self.at += seconds
        numbers = {Number.SLOPE_BYTES_PER_HOUR: 2e7}
        self.incidents.judge([Verdict(DetectorName.LEAK, level, "it leaks", numbers, 60.0, 0.9, cause)], self.at)


def test_a_firing_detector_opens_one_incident_with_its_numbers() -> None:
    book = Book()
    for _ in range(3):
        book.see(Level.FIRING)
    (incident,) = book.incidents.open
    assert (incident.kind, incident.summary, incident.opened_at) == ("leak", "it leaks", 1001.0)
    assert incident.evidence == {
        "slope_bytes_per_hour": 2e7,
        "window_s": 60.0,
        "confidence": 0.9,
        "cause": None,
    }
    assert book.incidents.of(DetectorName.LEAK) == incident.id
    assert book.balance == {"leak": 1}


def test_suspicion_alone_opens_none() -> None:
    book = Book()
    book.see(Level.SUSPECT)
    assert book.incidents.open == []


def test_an_incident_ends_when_it_has_been_well_for_a_while() -> None:
    book = Book()
    book.see(Level.FIRING)
    book.see(Level.OK)
    book.see(Level.OK, CLOSES_AFTER_S - 1)
    assert book.incidents.open
    book.see(Level.OK, 1)
    assert book.incidents.open == []
    (incident,) = book.kept.values()
    assert incident.closed_at == 1000.0 + book.at
    assert book.balance == {"leak": 0}


def test_one_that_comes_back_before_it_ended_is_the_same() -> None:
    book = Book()
    for _ in range(10):
        book.see(Level.FIRING)
        book.see(Level.OK, CLOSES_AFTER_S / 2)
        book.see(Level.SUSPECT, CLOSES_AFTER_S)
    assert len(book.kept) == 1


def test_another_cause_is_another_incident() -> None:
    book = Book()
    book.see(Level.FIRING, cause=Cause.OURS)
    book.see(Level.FIRING, cause=Cause.OTHERS)
    assert len(book.incidents.open) == 2
    book.see(Level.FIRING, CLOSES_AFTER_S, cause=Cause.OTHERS)
    assert [incident.evidence["cause"] for incident in book.incidents.open] == [Cause.OTHERS]


def test_what_no_detector_says_begins_and_ends_by_word() -> None:
    book = Book()
    book.incidents.begin("journal", "it is locked")
    book.incidents.begin("journal", "it is locked")
    book.see(Level.OK, 10 * CLOSES_AFTER_S)
    assert [incident.kind for incident in book.incidents.open] == ["journal"]
    book.incidents.end("journal")
    book.incidents.end("journal")
    assert (book.incidents.open, book.balance) == ([], {"journal": 0})


@given(st.lists(st.tuples(st.sampled_from(Level), st.floats(0.1, 100.0)), max_size=60))
def test_what_is_counted_as_open_is_what_is_open_and_all_ends(story: list[tuple[Level, float]]) -> None:
    book = Book()
    for level, seconds in story:
        book.see(level, seconds)
        assert sum(book.balance.values()) == len(book.incidents.open) <= 1
    book.see(Level.OK)
    book.see(Level.OK, CLOSES_AFTER_S + 1)
    assert book.incidents.open == []
    assert all(incident.closed_at is not None for incident in book.kept.values())
    assert all(msgspec.json.encode(incident) for incident in book.kept.values())
