"""The loop with the simulated batch: every request ends exactly once, positions have no gaps, nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
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
    Priority,
    Reclaim,
    RejectCode,
    Rejected,
    RequestEvent,
    Sampling,
    Submit,
    Tighten,
    Tokens,
)
from stoker.engine.scheduler import Scheduler
from stoker.engine.simulated import END_OF_TEXT, SimulatedBatch

LIMITS = Limits(max_running=4, max_waiting=8, context_tokens=1000)


class Bench:
    """A loop whose inbox is filled between steps by a script, and whose outbox is a list."""

    def __init__(self, script: Sequence[Sequence[Inbound]], kv_tokens: int | None = None) -> None:
        self.script = list(script)
        self.events: list[OwnedEvent] = []
        self.reclaimed: list[tuple[int, int]] = []
        limits = msgspec.structs.replace(LIMITS, kv_tokens=kv_tokens)
        self.batch = SimulatedBatch(Simulated(step_s=0), limits, epoch=1, called=lambda: False)
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


def preemptions(bench: Bench) -> int:
    return bench.link.reading.preemptions


def test_requests_take_turns_when_their_kv_does_not_fit_together_and_say_what_they_say_alone() -> None:
    requests = [submit(f"r{i}", prompt=10, max_tokens=60, seed=i) for i in range(4)]
    bench = Bench([[Command(0, request) for request in requests]], kv_tokens=100)
    events = bench.run()
    assert preemptions(bench) > 0
    assert bench.batch.memory().kv == 0
    for request in requests:
        assert isinstance(events[request.id][-1], Finished)
        assert text(events[request.id]) == text(only(request.id, request))


def test_a_preempted_stream_hears_nothing_of_being_computed_again() -> None:
    requests = [submit(f"r{i}", prompt=10, max_tokens=60, seed=i) for i in range(3)]
    bench = Bench([[Command(0, request) for request in requests]], kv_tokens=90)
    events = bench.run()
    assert preemptions(bench) > 0
    for of_one in events.values():
        first_token = next(i for i, event in enumerate(of_one) if isinstance(event, Tokens))
        assert not [event for event in of_one[first_token:] if isinstance(event, Prefill)]


def test_a_batch_request_gives_way_to_an_interactive_one() -> None:
    batch = msgspec.structs.replace(submit("batch", prompt=10, max_tokens=80), priority=Priority.BATCH)
    bench = Bench(
        [[Command(0, batch)], *[[] for _ in range(5)], [Command(0, submit("now", 10, 60, seed=2))]], kv_tokens=100
    )
    bench.run()
    ended = [owned.event.id for owned in bench.events if isinstance(owned.event, Finished)]
    assert ended == ["now", "batch"]
    assert preemptions(bench) == 1


def test_a_request_that_the_kv_can_never_hold_is_refused_with_both_numbers() -> None:
    (rejected,) = Bench([[Command(0, submit("x", prompt=80, max_tokens=21))]], kv_tokens=100).run()["x"]
    assert isinstance(rejected, Rejected)
    assert rejected.code is RejectCode.CONTEXT_LENGTH_EXCEEDED
    assert "101 tokens" in rejected.message
    assert "holds 100" in rejected.message


def test_what_is_reclaimed_is_told_to_who_asked() -> None:
    bench = Bench([[Command(3, Reclaim(1))], [Command(4, Reclaim(2))], [Command(3, Reclaim(0))]])
    bench.run()
    assert bench.reclaimed == [(3, 1), (4, 2), (3, 0)]


def test_from_level_3_no_prompt_is_begun_and_those_that_wait_are_handed_back_until_level_0() -> None:
    running = [submit(f"r{i}", max_tokens=30, seed=i) for i in range(4)]
    waiting = submit("waiting", seed=7)
    script: list[list[Inbound]] = [[Command(0, request) for request in (*running, waiting)], [], []]
    script += [
        [Command(0, Reclaim(3)), Command(0, submit("new"))],
        [],
        [Command(0, Reclaim(1))],
        [Command(0, submit("newer"))],
    ]
    script += [[Command(0, Reclaim(0)), Command(0, submit("after"))]]
    events = Bench(script).run()
    for name in ("waiting", "new", "newer"):
        (rejected,) = events[name]
        assert isinstance(rejected, Rejected)
        assert rejected.code is RejectCode.QUEUE_FULL
    for name in ("r0", "r1", "r2", "r3", "after"):
        assert isinstance(events[name][-1], Finished)


def test_tightened_it_runs_fewer_at_once_and_loosened_again_as_many_as_before() -> None:
    script: list[list[Inbound]] = [[Command(0, Tighten(max_running=1, chunk_tokens=4, speculate=False))]]
    script += [[Command(0, submit(f"r{i}", prompt=8, max_tokens=20, seed=i)) for i in range(3)], [], [], []]
    bench = Bench(script)
    bench.run()
    ends = [(owned.event.id, type(owned.event)) for owned in bench.events]
    assert [name for name, kind in ends if kind is Finished] == ["r0", "r1", "r2"]
    assert ends.index(("r0", Finished)) < ends.index(("r1", Tokens))
    loosened = Bench([*script[:2], [Command(0, Tighten())]])
    loosened.run()
    ends = [(owned.event.id, type(owned.event)) for owned in loosened.events]
    assert ends.index(("r1", Tokens)) < ends.index(("r0", Finished))


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
    st.builds(lambda level: Command(0, Reclaim(level)), st.integers(0, 3)),
    st.builds(lambda most, chunk: Command(0, Tighten(most, chunk)), *[st.none() | st.integers(1, 4)] * 2),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(inbound, max_size=4), max_size=30), st.none() | st.integers(140, 400))
def test_whatever_happens_each_request_ends_once_and_nothing_is_left(
    script: list[list[Inbound]], kv_tokens: int | None
) -> None:
    bench = Bench(script, kv_tokens)
    events = bench.run()
    bench.scheduler.check_integrity()
    assert bench.scheduler.idle
    assert bench.batch.memory().kv == 0
    for of_one in events.values():
        open_ = False
        for event in of_one:
            # A submission of an id that runs is refused in between; everything else belongs to a life of its own.
            handed_back = isinstance(event, Rejected) and event.code is RejectCode.QUEUE_FULL
            if isinstance(event, Finished) or handed_back:
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
