"""What the engine says of its prefix cache and drafts: every token of every lookup is counted once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.batch import Found, Sampled, TierSize
from stoker.engine.counts import Counts
from stoker.engine.protocol import Decoding, DraftMethod, Drafts, MissReason, PrefixCacheUse, Tier

TIERS = {Tier.RAM: TierSize(nbytes=100, evictions=2), Tier.DISK: TierSize(nbytes=300, evictions=0)}


@st.composite
def lookups(draw: st.DrawFn) -> tuple[int, Found]:
    tokens = draw(st.integers(1, 1000))
    hit = draw(st.integers(0, tokens))
    miss = draw(st.sampled_from(MissReason)) if hit < tokens else None
    return tokens, Found(hit, miss=miss, from_disk=draw(st.integers(0, hit)))


@given(st.lists(lookups()))
def test_hits_and_misses_add_up_to_the_tokens_that_were_looked_up(each: list[tuple[int, Found]]) -> None:
    counts = Counts()
    for tokens, found in each:
        counts.looked_up(tokens, found)
    use = counts.prefix_cache(TIERS)
    assert use.lookups == len(each)
    assert sum(use.hit_tokens.values()) + use.missed_tokens == sum(tokens for tokens, _ in each)
    assert sum(use.misses.values()) == sum(found.miss is not None for _, found in each)


def test_a_tier_that_is_not_there_is_not_spoken_of() -> None:
    counts = Counts()
    counts.looked_up(10, Found(miss=MissReason.COLD))
    assert counts.prefix_cache({}) == PrefixCacheUse(lookups=1, missed_tokens=10, misses={MissReason.COLD: 1})
    assert counts.prefix_cache(TIERS).nbytes == {Tier.RAM: 100, Tier.DISK: 300}
    assert counts.prefix_cache(TIERS).evictions == {Tier.RAM: 2, Tier.DISK: 0}


def test_what_was_given_out_stays_as_it_was() -> None:
    counts = Counts()
    before = counts.prefix_cache(TIERS), counts.drafts()
    counts.looked_up(10, Found(4, Tier.DISK, MissReason.COLD, from_disk=4))
    counts.sampled(Sampled("a", [1, 2], drafted=3))
    assert before == (
        PrefixCacheUse(hit_tokens={Tier.RAM: 0, Tier.DISK: 0}, nbytes=before[0].nbytes, evictions=before[0].evictions),
        {},
    )
    assert counts.drafts() == {DraftMethod.PROMPT_LOOKUP: Drafts(drafted=3, accepted=1)}


def test_a_token_without_a_draft_is_no_draft() -> None:
    counts = Counts()
    counts.sampled(Sampled("a", [1]))
    assert counts.drafts() == {}


def test_decoding_is_summed_up_and_remembers_the_last_context() -> None:
    counts = Counts()
    counts.decoded(0.5, rows=2, tokens=3, context_tokens=100)
    before = counts.decoding
    counts.decoded(0.25, rows=1, tokens=1, context_tokens=60)
    assert counts.decoding == Decoding(steps=2, seconds=0.75, rows=3, tokens=4, context_tokens=60)
    assert before.steps == 1


def test_every_token_of_an_output_is_counted() -> None:
    counts = Counts()
    counts.sampled(Sampled("a", [1, 2, 3], drafted=2))
    counts.sampled(Sampled("b", [1]))
    assert counts.generated_tokens == 4
