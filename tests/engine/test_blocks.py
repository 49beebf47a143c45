"""The tier in RAM, driven by random conversations against a model that only counts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stoker.engine.blocks import RamSnapshot, RamTier, Run, Segment, chain, root_hash

ROOT = root_hash(model="model", mlx_lm="0.32.2", caches=["KVCache"], block_tokens=1, kv="float16")

conversations = st.lists(st.integers(0, 1), min_size=1, max_size=8)


def blocks(text: str) -> list[bytes]:
    """A chain of one block a letter."""
    return chain(ROOT, [ord(letter) for letter in text], 1)


def segment(text: str, nbytes: int = 1, start: int = 0) -> Segment:
    hashes = blocks(text)
    return Segment(text, nbytes, hashes[start - 1] if start else ROOT, tuple(hashes[start:]))


def tier() -> RamTier:
    return RamTier(on_evicted=lambda block: None)


def found(runs: list[Run]) -> list[tuple[object, int, int]]:
    return [(run.segment.payload, run.first_block, run.block_count) for run in runs]


def test_a_chain_has_a_hash_for_each_full_block_and_equal_starts_have_equal_hashes() -> None:
    short, long = chain(ROOT, range(130), 64), chain(ROOT, range(200), 64)
    assert len(short) == 2
    assert long[:2] == short
    assert len(set(long)) == 3
    assert chain(ROOT, range(63), 64) == []


def test_a_block_s_hash_depends_on_every_token_before_it() -> None:
    tokens = list(range(128))
    assert chain(ROOT, [1000, *tokens[1:]], 64)[1] != chain(ROOT, tokens, 64)[1]


def test_whatever_makes_kv_unusable_changes_the_root() -> None:
    roots = {
        root_hash(model=model, mlx_lm=version, caches=caches, block_tokens=block_tokens, kv=kv)
        for model in ("a", "b")
        for version in ("0.32.2", "0.32.3")
        for caches in (["KVCache"], ["KVCache", "KVCache"], ["RotatingKVCache"])
        for block_tokens in (64, 32)
        for kv in ("float16", "q8")
    }
    assert len(roots) == 2 * 2 * 3 * 2 * 2


def test_a_lookup_finds_the_longest_known_prefix() -> None:
    ram = tier()
    assert ram.insert(segment("abc")) == []
    assert found(ram.lookup(blocks("abcd"))) == [("abc", 0, 3)]
    assert found(ram.lookup(blocks("ax"))) == [("abc", 0, 1)]
    assert ram.lookup(blocks("x")) == []
    assert ram.lookup([]) == []


def test_a_segment_goes_on_where_another_ended() -> None:
    ram = tier()
    ram.insert(segment("abc"))
    ram.insert(segment("abcde", start=3))
    assert found(ram.lookup(blocks("abcdef"))) == [("abc", 0, 3), ("abcde", 0, 2)]


def test_a_lookup_may_begin_where_another_tier_has_the_blocks_before() -> None:
    ram = tier()
    ram.insert(segment("abcde", start=3))
    assert ram.lookup(blocks("abcde")) == []
    assert found(ram.lookup(blocks("abcde")[4:])) == [("abcde", 1, 1)]


def test_the_fewest_runs_are_chosen_among_overlapping_segments() -> None:
    ram = tier()
    ram.insert(segment("abx"))
    ram.insert(segment("abcd"))
    assert found(ram.lookup(blocks("abcd"))) == [("abcd", 0, 4)]


def test_a_segment_with_nothing_new_is_returned_and_counts_as_a_use() -> None:
    ram = tier()
    ram.insert(segment("abc"))
    ram.insert(segment("x"))
    again = segment("ab")
    assert ram.insert(again) == [again]
    assert [each.payload for each in ram.evict_to(1)] == ["x"]


def test_the_next_turn_of_a_conversation_replaces_the_turn_before() -> None:
    ram = tier()
    first, second = segment("abc"), segment("abcde")
    ram.insert(first)
    assert ram.insert(second) == [first]
    assert ram.nbytes == second.nbytes
    assert ram.snapshot().evicted_blocks == 0


def test_a_replaced_segment_that_is_pinned_keeps_its_memory_until_it_is_unpinned() -> None:
    ram = tier()
    first, second = segment("abc", nbytes=3), segment("abcde", nbytes=5)
    ram.insert(first)
    ram.pin(first)
    ram.pin(first)
    assert ram.insert(second) == []
    assert ram.snapshot() == RamSnapshot(nbytes=8, pinned_bytes=3, segments=1, blocks=5, evicted_blocks=0)
    assert ram.unpin(first) == []
    assert ram.unpin(first) == [first]
    assert ram.nbytes == 5


def test_a_pinned_segment_is_not_evicted() -> None:
    ram = tier()
    kept = segment("abc", nbytes=3)
    ram.insert(kept)
    ram.insert(segment("x"))
    ram.pin(kept)
    assert [each.payload for each in ram.evict_to(0)] == ["x"]
    assert ram.unpin(kept) == []
    assert ram.evict_to(0) == [kept]
    assert ram.nbytes == 0


def test_what_others_continue_outlives_them() -> None:
    ram = tier()
    ram.insert(segment("ab"))
    ram.insert(segment("x"))
    ram.insert(segment("abcd", start=2))
    assert [each.payload for each in ram.evict_to(0)] == ["x", "abcd", "ab"]


def test_blocks_that_another_segment_holds_are_not_lost_with_the_first() -> None:
    lost: list[bytes] = []
    ram = RamTier(on_evicted=lost.append)
    ram.insert(segment("abx"))
    ram.insert(segment("abcd"))
    ram.evict_to(1)
    assert lost == blocks("abx")[2:]
    assert found(ram.lookup(blocks("abcd"))) == [("abcd", 0, 4)]


@given(st.lists(st.tuples(conversations, st.booleans(), st.integers(0, 12)), max_size=30))
def test_without_pins_no_segment_ever_outlives_what_it_continues(
    steps: list[tuple[list[int], bool, int]],
) -> None:
    """As the engine uses it: look up, compute the rest, keep it; whole or only what is new."""
    ram = tier()
    kept: set[Segment] = set()
    for tokens, whole, budget in steps:
        hashes = chain(ROOT, tokens, 1)
        known = sum(run.block_count for run in ram.lookup(hashes))
        start = 0 if whole else known
        new = Segment(tokens, len(hashes) - start, hashes[start - 1] if start else ROOT, tuple(hashes[start:]))
        kept.add(new)
        kept.difference_update(ram.insert(new))
        ram.lookup(hashes[budget % len(hashes) :])
        kept.difference_update(ram.evict_to(budget))
        assert all(each.parent == ROOT or ram.contains(each.parent) for each in kept)
        assert ram.nbytes <= budget


class Conversations(RuleBasedStateMachine):
    """Requests that keep their KV whole or from where another ended, rows that pin, budgets that shrink."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[bytes] = []
        self.ram = RamTier(on_evicted=self.lost.append)
        self.findable: set[Segment] = set()
        self.held: set[Segment] = set()
        self.pins: list[Segment] = []

    def known(self) -> set[bytes]:
        return {block for each in self.findable for block in each.blocks}

    def free(self, segments: list[Segment]) -> None:
        assert not set(segments) & set(self.pins), "a pinned segment was freed"
        assert len(set(segments)) == len(segments)
        self.held -= set(segments)
        self.findable -= set(segments)

    @rule(tokens=conversations, start=st.integers(0, 7), nbytes=st.integers(1, 5))
    def insert(self, tokens: list[int], start: int, nbytes: int) -> None:
        hashes = chain(ROOT, tokens, 1)
        start = min(start, len(hashes) - 1)
        new = Segment(None, nbytes, hashes[start - 1] if start else ROOT, tuple(hashes[start:]))
        before, was_known = self.known(), set(new.blocks) <= self.known()
        freed = self.ram.insert(new)
        assert (freed == [new]) == was_known
        if was_known:
            return
        self.held.add(new)
        self.findable = {each for each in self.findable if not set(each.blocks) <= set(new.blocks)} | {new}
        self.free(freed)
        assert self.known() == before | set(new.blocks)

    @rule(tokens=conversations, start=st.integers(0, 3))
    def lookup(self, tokens: list[int], start: int) -> None:
        hashes, known = chain(ROOT, tokens, 1)[start:], self.known()
        runs = self.ram.lookup(hashes)
        assert all(run.segment in self.findable and run.block_count for run in runs)
        hit = [b for run in runs for b in run.segment.blocks[run.first_block : run.first_block + run.block_count]]
        assert hit == hashes[: len(hit)]
        assert len(hit) == len(hashes) or hashes[len(hit)] not in known

    @precondition(lambda self: self.findable)
    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        runs = self.ram.lookup(data.draw(st.sampled_from(sorted(self.findable, key=lambda each: each.blocks))).blocks)
        self.ram.pin(runs[0].segment)
        self.pins.append(runs[0].segment)

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        pinned = self.pins.pop(data.draw(st.integers(0, len(self.pins) - 1)))
        self.free(self.ram.unpin(pinned))

    @rule(budget=st.integers(0, 20))
    def evict(self, budget: int) -> None:
        before, known = self.ram.nbytes, self.known()
        self.lost.clear()
        freed = self.ram.evict_to(budget)
        self.free(freed)
        assert self.ram.nbytes <= budget or self.findable <= set(self.pins)
        assert not freed or before - sum(each.nbytes for each in freed[:-1]) > budget, "evicted more than it had to"
        assert sorted(self.lost) == sorted(known - self.known())

    @invariant()
    def bytes_are_those_of_what_is_held(self) -> None:
        assert self.ram.nbytes == sum(each.nbytes for each in self.held)
        assert self.ram.snapshot().segments == len(self.findable)
        assert self.held == self.findable | set(self.pins)
        self.ram.check_integrity()


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
