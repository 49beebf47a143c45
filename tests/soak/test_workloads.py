"""Workloads: the same seed is the same text, shared is what should be shared, and times are what was asked for."""

from __future__ import annotations

import itertools
import statistics

import pytest

from stoker.soak.errors import UnknownWorkload
from stoker.soak.workloads import NAMES, Conversation, workload
from stoker.soak.workloads.arrivals import Bursts, Poisson


def first(name: str, count: int = 10, seed: int = 1) -> list[Conversation]:
    return list(itertools.islice(workload(name, seed=seed).conversations(), count))


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_says_everything(name: str) -> None:
    assert first(name) == first(name)
    assert first(name) != first(name, seed=2)


@pytest.mark.parametrize("name", NAMES)
def test_no_two_requests_begin_alike_but_for_their_system_prompt(name: str) -> None:
    asked = [turn.adds[-1].text[:20] for conversation in first(name) for turn in conversation.turns]
    assert len(set(asked)) == len(asked)


def test_agents_share_a_few_system_prompts_and_their_tools() -> None:
    agents = first("agent", 20)
    systems = {conversation.turns[0].adds[0].text for conversation in agents}
    assert 1 < len(systems) <= 3
    assert all(system.count('"function"') == 2 * 12 for system in systems)
    assert all(conversation.turns[0].adds[0].role == "system" for conversation in agents)
    assert all("The tool answered" in turn.adds[0].text for turn in agents[0].turns[1:])


def test_mixed_has_a_bit_of_everything() -> None:
    assert {conversation.workload for conversation in first("mixed", 100)} == {"chat", "agent", "echo", "long-context"}


def test_poisson_arrivals_come_at_their_rate() -> None:
    times = list(itertools.islice(Poisson(per_s=4.0).times(seed=7), 4000))
    assert times == sorted(times)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(0.25, rel=0.1)
    # An exponential distribution's deviation is its mean.
    assert statistics.stdev(gaps) == pytest.approx(0.25, rel=0.1)


def test_bursts_come_all_at_once() -> None:
    assert list(itertools.islice(Bursts(size=2, every_s=30.0).times(1), 5)) == [0.0, 0.0, 30.0, 30.0, 60.0]


@pytest.mark.parametrize("name", NAMES)
def test_a_scale_changes_lengths_and_nothing_else(name: str) -> None:
    scaled = list(itertools.islice(workload(name, scale=0.5).conversations(), 3))
    for whole, half in zip(first(name, 3), scaled, strict=True):
        assert [turn.max_tokens for turn in half.turns] == pytest.approx(
            [turn.max_tokens / 2 for turn in whole.turns], abs=1
        )
        assert (half.at, half.seed, half.temperature) == (whole.at, whole.seed, whole.temperature)


def test_an_unknown_workload_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownWorkload, match="chat, agent"):
        workload("chatt")
