"""Counts over many engines: they never go back, and nothing that was told is lost or counted twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import DraftMethod, Drafts, Heartbeat, Memory, MissReason, Phase, PrefixCacheUse, Tier
from stoker.service.engine_totals import EngineTotals
from stoker.service.metrics import ENGINE_STEPS, PREFIX_CACHE_TOKENS, SPECULATIVE_TOKENS

lives = st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=5).map(sorted), min_size=1, max_size=5)


def heartbeat(epoch: int, count: int) -> Heartbeat:
    return Heartbeat(
        epoch=epoch,
        pid=epoch,
        phase=Phase.READY,
        steps=count,
        last_step_age=0.0,
        running=0,
        waiting=0,
        memory=Memory(),
        prefix_cache=PrefixCacheUse(
            lookups=count, hit_tokens={Tier.DISK: count}, missed_tokens=2 * count, misses={MissReason.COLD: count}
        ),
        drafts={DraftMethod.PROMPT_LOOKUP: Drafts(3 * count, count)},
    )


@given(lives)
def test_totals_are_the_sum_of_the_last_words_of_all_engines_and_never_go_back(each: list[list[int]]) -> None:
    totals = EngineTotals()
    before = 0
    for epoch, counts in enumerate(each, start=1):
        for count in counts:
            totals.observe(heartbeat(epoch, count))
            now = totals.totals()[ENGINE_STEPS][()]
            assert now >= before
            before = now
    whole = sum(counts[-1] for counts in each)
    assert totals.totals()[ENGINE_STEPS] == {(): whole}
    assert totals.totals()[PREFIX_CACHE_TOKENS] == {("miss", ""): 2 * whole, ("hit", "disk"): whole}
    assert totals.totals()[SPECULATIVE_TOKENS] == {
        ("prompt_lookup", "drafted"): 3 * whole,
        ("prompt_lookup", "accepted"): whole,
    }


def test_nothing_is_told_of_engines_that_said_nothing() -> None:
    assert EngineTotals().totals() == {}
