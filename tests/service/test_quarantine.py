"""Who killed the engine: no innocent is ever condemned for a crash it did not cause, and no poison goes on for ever."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import Sampling
from stoker.service.quarantine import ACCUSED_AT, MAX_REMEMBERED, Fingerprints, Quarantine
from tests.service.table import order

CRASHES_OF_A_POISON = ACCUSED_AT + 1


def given_to_the_engine(quarantine: Quarantine, *names: str) -> None:
    for name in names:
        assert quarantine.may_go(name)
        quarantine.handed_over(name)


def crash(quarantine: Quarantine) -> list[str]:
    quarantine.lost()
    return quarantine.judged(crash=True)


@pytest.fixture
def quarantine() -> Quarantine:
    return Quarantine()


def test_one_that_is_alone_in_the_engine_is_condemned_at_its_third_crash(quarantine: Quarantine) -> None:
    for _ in range(ACCUSED_AT - 1):
        given_to_the_engine(quarantine, "poison")
        assert crash(quarantine) == []
    given_to_the_engine(quarantine, "poison")
    assert crash(quarantine) == ["poison"]


def test_a_stream_that_goes_on_between_crashes_is_never_a_suspect(quarantine: Quarantine) -> None:
    for place in range(100):
        given_to_the_engine(quarantine, "stream")
        quarantine.reached("stream", place)
        assert crash(quarantine) == []
        assert not quarantine.suspects("stream")


def test_computing_again_what_was_computed_before_is_no_progress(quarantine: Quarantine) -> None:
    given_to_the_engine(quarantine, "poison")
    quarantine.reached("poison", 50)
    for _ in range(ACCUSED_AT - 1):
        assert crash(quarantine) == []
        given_to_the_engine(quarantine, "poison")
        for place in (10, 30, 50):
            quarantine.reached("poison", place)
    assert crash(quarantine) == ["poison"]


def test_suspects_are_tried_one_at_a_time_and_the_next_when_one_is_acquitted(quarantine: Quarantine) -> None:
    for _ in range(2):
        given_to_the_engine(quarantine, "a", "b")
        assert crash(quarantine) == []
    assert quarantine.suspects("a")
    assert quarantine.suspects("b")
    given_to_the_engine(quarantine, "a")
    assert not quarantine.may_go("b")
    assert quarantine.may_go("new"), "others go on meanwhile"
    assert quarantine.reached("a", 0)
    given_to_the_engine(quarantine, "b")


def test_a_suspect_waits_until_those_with_a_strike_have_shown_that_they_run(quarantine: Quarantine) -> None:
    given_to_the_engine(quarantine, "stream", "stuck")
    quarantine.reached("stream", 7)
    crash(quarantine)
    given_to_the_engine(quarantine, "stream", "stuck")
    quarantine.reached("stream", 8)
    crash(quarantine)
    given_to_the_engine(quarantine, "stream")
    assert not quarantine.may_go("stuck")
    quarantine.reached("stream", 9)
    assert quarantine.may_go("stuck")


def test_one_that_crashes_in_company_gets_the_engine_to_itself(quarantine: Quarantine) -> None:
    for _ in range(2):
        given_to_the_engine(quarantine, "a", "poison")
        crash(quarantine)
    given_to_the_engine(quarantine, "a")
    quarantine.reached("a", 0)
    given_to_the_engine(quarantine, "poison")
    assert crash(quarantine) == [], "it may have been the other"
    assert quarantine.trying
    assert not quarantine.may_go("a")
    assert not quarantine.may_go("new")
    given_to_the_engine(quarantine, "poison")
    assert not quarantine.may_go("a")
    assert crash(quarantine) == ["poison"]
    quarantine.ended("poison")
    given_to_the_engine(quarantine, "a", "new")


def test_a_restart_on_purpose_is_no_strike(quarantine: Quarantine) -> None:
    for _ in range(10):
        given_to_the_engine(quarantine, "a")
        quarantine.lost()
        assert quarantine.judged(crash=False) == []
    given_to_the_engine(quarantine, "a")
    assert crash(quarantine) == []


def test_who_left_after_the_crash_was_company_all_the_same(quarantine: Quarantine) -> None:
    for _ in range(2):
        given_to_the_engine(quarantine, "a", "b")
        crash(quarantine)
    given_to_the_engine(quarantine, "a", "c")
    quarantine.lost()
    quarantine.ended("c")
    assert quarantine.judged(crash=True) == []


@dataclass
class Request:
    """Makes the engine crash when it would get to `poison`; ends at `length`."""

    length: int
    poison: int | None
    place: int = 0
    crashes: int = 0


@dataclass
class World:
    """An engine that computes one place of one request at a time, and those who wait for it."""

    requests: dict[str, Request]
    quarantine: Quarantine = field(default_factory=Quarantine)
    running: dict[str, int] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    condemned: set[str] = field(default_factory=set)

    def open(self) -> list[str]:
        return [name for name in self.requests if name not in self.finished | self.condemned]

    def hand_over(self) -> None:
        for name in self.open():
            if name not in self.running and self.quarantine.may_go(name):
                self.quarantine.handed_over(name)
                self.running[name] = 0
        self.quarantine.check_integrity(self.open())

    def compute(self, name: str) -> None:
        request = self.requests[name]
        if self.running[name] == request.poison:
            request.crashes += 1
            self.die()
        elif self.running[name] == request.length:
            del self.running[name]
            self.finished.add(name)
            self.quarantine.ended(name)
        else:
            self.running[name] += 1
            self.quarantine.reached(name, self.running[name])

    def die(self) -> None:
        self.running.clear()
        for name in crash(self.quarantine):
            self.condemned.add(name)
            self.quarantine.ended(name)


lengths = st.integers(0, 6)
innocents = st.builds(Request, lengths, st.none())
poisons = st.builds(Request, st.just(6), st.integers(0, 5))


@given(st.lists(innocents, max_size=6), st.lists(poisons, max_size=3), st.data())
def test_every_innocent_finishes_and_every_poison_is_condemned_within_few_crashes(
    healthy: list[Request], deadly: list[Request], data: st.DataObject
) -> None:
    together = data.draw(st.permutations([replace(request) for request in [*healthy, *deadly]]))
    world = World({f"r{number}": request for number, request in enumerate(together)})
    while world.open():
        world.hand_over()
        assert world.running, "somebody can always go"
        world.compute(data.draw(st.sampled_from(sorted(world.running))))
    guilty = {name for name, request in world.requests.items() if request.poison is not None}
    assert world.condemned == guilty
    assert all(request.crashes <= CRASHES_OF_A_POISON for request in world.requests.values())


@given(st.lists(innocents, min_size=1, max_size=6), st.lists(st.booleans(), max_size=200), st.data())
def test_a_healthy_engine_killed_at_random_condemns_nobody_who_was_not_alone_and_stuck(
    healthy: list[Request], kills: list[bool], data: st.DataObject
) -> None:
    world = World({f"r{number}": replace(request) for number, request in enumerate(healthy)})
    stuck_alone: set[str] = set()
    for kill in kills:
        world.hand_over()
        if not world.open():
            break
        if kill:
            if len(world.running) == 1:
                stuck_alone |= set(world.running)
            world.die()
        else:
            world.compute(data.draw(st.sampled_from(sorted(world.running))))
    assert world.condemned <= stuck_alone


def test_what_was_condemned_is_refused_for_a_while_whatever_its_seed_and_name() -> None:
    now = 0.0
    marks = Fingerprints(100.0, lambda: now)
    marks.add(order("a"))
    same = replace(order("b", key="another"), sampling=Sampling(seed=99))
    assert marks.refused_for(same) == 100.0
    for other in (order("a", prompt=[1, 2, 4]), order("a", max_tokens=11)):
        assert marks.refused_for(other) is None
    assert marks.refused_for(replace(same, sampling=Sampling(seed=5, temperature=0.5))) is None
    now = 100.0
    assert marks.refused_for(same) is None


def test_the_list_of_the_refused_is_bounded() -> None:
    marks = Fingerprints(100.0, lambda: 0.0)
    for number in range(MAX_REMEMBERED + 1):
        marks.add(order("a", prompt=[number]))
    assert marks.refused_for(order("a", prompt=[0])) is None
    assert marks.refused_for(order("a", prompt=[1])) == 100.0
