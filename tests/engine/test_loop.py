"""The loop with the simulated batch: every request ends exactly once, positions have no gaps, nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.config import Simulated
from stoker.engine.link import Command, Inbound, Link, OwnedEvent, OwnerGone, Stop
from stoker.engine.loop import EngineLoop
from stoker.engine.pace import PrefillPace
from stoker.engine.protocol import (
    Cancel,
    Finished,
    FinishReason,
    Limits,
    MissReason,
    Prefill,
    RejectCode,
    Rejected,
    RequestEvent,
    Sampling,
    Submit,
    Tokens,
)
from stoker.engine.scheduler import Scheduler
from stoker.engine.simulated import END_OF_TEXT, SimulatedBatch

LIMITS = Limits(max_running=4, max_waiting=8, context_tokens=1000)


class Bench:
    """A loop whose inbox is filled between steps by a script, and whose outbox is a list."""

    def __init__(self, script: Sequence[Sequence[Inbound]]) -> None:
        self.script = list(script)
        self.events: list[OwnedEvent] = []
        self.reclaimed: list[tuple[int, int]] = []
        self.batch = SimulatedBatch(Simulated(step_s=0), LIMITS, epoch=1)
        self.scheduler = Scheduler(
            LIMITS.max_running, LIMITS.max_waiting, lambda decoding, prefilling: 16 if decoding else 64
        )
        self.link = _ScriptedLink(self)

    def run(self) -> dict[str, list[RequestEvent]]:
        """All events, by request."""
        EngineLoop(self.link, self.scheduler, self.batch, PrefillPace(32, 0.1), time.monotonic).run()
        by_request: dict[str, list[RequestEvent]] = {}
        for owned in self.events:
            by_request.setdefault(owned.event.id, []).append(owned.event)
        return by_request


class _ScriptedLink(Link):
    """Gives one entry of the script a step, and stops once the script and the work are over."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(
            deliver=bench.events.extend,
            announce=lambda model, limits: None,
            reclaimed=lambda owner, level, freed: bench.reclaimed.append((owner, level)),
        )
        self._bench = bench

    def receive(self, wait: bool) -> list[Inbound]:
        if self._bench.script:
            return list(self._bench.script.pop(0))
        return [Stop()] if wait else []


def submit(name: str, prompt: int = 5, max_tokens: int = 10, emitted: Sequence[int] = (), seed: int = 1) -> Submit:
    return Submit(name, [65] * prompt, list(emitted), Sampling(seed=seed), max_tokens, [END_OF_TEXT])


def text(events: list[RequestEvent]) -> list[int]:
    """The output ids, after checking that their positions have no gap."""
    ids: list[int] = []
    tokens = [event for event in events if isinstance(event, Tokens)]
    for event in tokens:
        assert event.position == tokens[0].position + len(ids)
        ids.extend(event.ids)
    return ids


def only(name: str, *words: Submit) -> list[RequestEvent]:
    return Bench([[Command(0, word) for word in words]]).run()[name]


def test_a_request_prefills_streams_and_finishes() -> None:
    events = only("a", submit("a", prompt=100, max_tokens=7))
    assert [event.done for event in events if isinstance(event, Prefill)] == [0, 64, 100]
    assert len(text(events)) == 7
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.LENGTH


def test_a_stop_id_ends_the_request_and_is_not_sent() -> None:
    events = only("a", submit("a", max_tokens=900))
    assert END_OF_TEXT not in text(events)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.STOP


def test_a_resumed_request_goes_on_where_it_was() -> None:
    whole = text(only("a", submit("a", max_tokens=30)))
    for cut in (1, 7, 29):
        rest = only("a", submit("a", max_tokens=30, emitted=whole[:cut]))
        assert whole[:cut] + text(rest) == whole
        assert next(event.position for event in rest if isinstance(event, Tokens)) == cut


def test_a_cancelled_request_says_so_once_and_leaves_the_others_alone() -> None:
    alone = text(only("b", submit("b", seed=2)))
    script: list[list[Inbound]] = [[Command(0, submit("a")), Command(0, submit("b", seed=2))], [], [], [], []]
    script[3] = [Command(0, Cancel("a")), Command(0, Cancel("a")), Command(0, Cancel("nobody"))]
    events = Bench(script).run()
    assert [event.reason for event in events["a"] if isinstance(event, Finished)] == [FinishReason.CANCELLED]
    assert text(events["b"]) == alone
    assert "nobody" not in events


def test_an_id_used_again_right_after_its_cancellation_gets_its_own_tokens() -> None:
    script: list[list[Inbound]] = [
        [Command(0, submit("a", seed=1, max_tokens=100))],
        [],
        [],
        [],
        [Command(0, Cancel("a")), Command(0, submit("a", seed=2))],
    ]
    events = Bench(script).run()["a"]
    ended = next(i for i, event in enumerate(events) if isinstance(event, Finished))
    assert text(events[ended + 1 :]) == text(only("a", submit("a", seed=2)))


def test_requests_of_a_gone_owner_are_dropped_silently() -> None:
    bench = Bench([[Command(0, submit("a", max_tokens=500)), Command(1, submit("b"))], [], [OwnerGone(0)]])
    events = bench.run()
    assert not any(isinstance(event, Finished) for event in events.get("a", []))
    assert isinstance(events["b"][-1], Finished)
    assert bench.scheduler.idle


@pytest.mark.parametrize(
    ("word", "code"),
    [
        (submit("x", prompt=0), RejectCode.INVALID),
        (submit("x", max_tokens=0), RejectCode.INVALID),
        (submit("x", max_tokens=2, emitted=[65, 65]), RejectCode.INVALID),
        (submit("x", emitted=[-1]), RejectCode.INVALID),
        (submit("x", emitted=[256]), RejectCode.INVALID),
        (submit("x", prompt=991), RejectCode.CONTEXT_LENGTH_EXCEEDED),
    ],
)
def test_a_submission_that_cannot_run_is_rejected_with_its_reason(word: Submit, code: RejectCode) -> None:
    (rejected,) = only("x", word)
    assert isinstance(rejected, Rejected)
    assert rejected.code is code


def test_a_prompt_that_exactly_fits_is_taken() -> None:
    assert isinstance(only("x", submit("x", prompt=990))[-1], Finished)


def test_the_thirteenth_of_twelve_places_is_refused() -> None:
    events = Bench([[Command(0, submit(f"r{i}")) for i in range(13)]]).run()
    rejected = [event for of_one in events.values() for event in of_one if isinstance(event, Rejected)]
    assert [(event.id, event.code) for event in rejected] == [("r12", RejectCode.QUEUE_FULL)]


def test_a_second_submission_of_a_running_id_is_refused_and_the_first_goes_on() -> None:
    events = only("a", submit("a"), submit("a"))
    assert sum(isinstance(event, Rejected) for event in events) == 1
    assert len(text(events)) == 10


inbound = st.one_of(
    st.builds(
        lambda owner, name, prompt, max_tokens: Command(owner, submit(name, prompt, max_tokens, seed=ord(name))),
        st.integers(0, 1),
        st.sampled_from("abcdefgh"),
        st.integers(0, 120),
        st.integers(0, 20),
    ),
    st.builds(lambda owner, name: Command(owner, Cancel(name)), st.integers(0, 1), st.sampled_from("abcdefgh")),
    st.builds(OwnerGone, st.integers(0, 1)),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(inbound, max_size=4), max_size=30))
def test_whatever_happens_each_request_ends_once_and_nothing_is_left(script: list[list[Inbound]]) -> None:
    bench = Bench(script)
    events = bench.run()
    bench.scheduler.check_integrity()
    assert bench.scheduler.idle
    assert bench.batch.memory().kv == 0
    for of_one in events.values():
        open_ = False
        for event in of_one:
            # A submission of an id that runs is refused in between; everything else belongs to a life of its own.
            if isinstance(event, Finished):
                open_ = False
            elif not isinstance(event, Rejected):
                open_ = True
        if open_:
            assert any(isinstance(word, OwnerGone) for step in script for word in step)


def test_what_became_of_the_prompts_is_in_the_reading_and_in_the_timings() -> None:
    bench = Bench([[Command(0, submit("a", prompt=200))], [Command(0, submit("b", prompt=7))]])
    events = bench.run()
    use = bench.link.reading.prefix_cache
    assert (use.lookups, use.missed_tokens, use.misses) == (2, 207, {MissReason.COLD: 2})
    finished = events["a"][-1]
    assert isinstance(finished, Finished)
    pieces = [event for event in events["a"] if isinstance(event, Prefill)]
    # The first says what was cached; each of the others is a piece.
    assert finished.timings.prefill_chunks == len(pieces) - 1 >= 4
    assert finished.timings.computed_tokens == 200
