"""The prefix cache under the real batch: a hit, from RAM or disk, says what a cold run says, and nothing leaks."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.blocks import root_hash
from stoker.engine.drafting import Drafting
from stoker.engine.kv_disk import DiskTier
from stoker.engine.link import Command, Inbound
from stoker.engine.mlx_batch import MlxBatch
from stoker.engine.prefix_blocks import BLOCK_TOKENS
from stoker.engine.prefix_cache import PrefixCache
from stoker.engine.protocol import Cancel, MissReason, Prefill, Sampling, Submit, Tier

from .model_families import FAMILIES, VOCABULARY, memory_for
from .test_mlx_batch import LIMITS, KnowingDrafting, Run, batch_of, model_of, no_drafting, outputs, together

ROOT = root_hash(model="test", mlx_lm="test", caches=["KVCache"], block_tokens=BLOCK_TOKENS, kv="f32")
PLENTY = 1 << 30


def prefix_cache(ram_bytes: int = PLENTY, disk: DiskTier | None = None, family: str = "plain") -> PrefixCache:
    return PrefixCache(ROOT, ram_bytes, disk, model_of(family))


def cached_batch(cache: PrefixCache, drafting: Drafting | None = None, family: str = "plain") -> MlxBatch:
    return MlxBatch(
        model_of(family),
        name="test",
        limits=LIMITS,
        vocabulary=VOCABULARY,
        memory=memory_for(model_of(family)),
        grammars=None,
        drafting=drafting or no_drafting(),
        prefixes=cache,
    )


def tokens_of(seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(VOCABULARY) for _ in range(count)]


def request(name: str, prompt: Sequence[int], max_tokens: int = 8, seed: int = 0, temperature: float = 0.0) -> Submit:
    return Submit(name, list(prompt), [], Sampling(seed=seed, temperature=temperature), max_tokens, [])


def cold(*requests: Submit, family: str = "plain") -> dict[str, list[int]]:
    return outputs(batch_of(model_of(family), no_drafting()), requests)


def first_prefill(run: Run, name: str) -> Prefill:
    return next(o.event for o in run.events if isinstance(o.event, Prefill) and o.event.id == name)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskTier]:
    tier = DiskTier(tmp_path / "kv", PLENTY, version="v1")
    yield tier
    tier.close()


def test_the_second_of_two_equal_prompts_computes_its_last_block_only() -> None:
    prompt = tokens_of(1, 200)
    batch = cached_batch(prefix_cache())
    runs = [together(batch, [request(name, prompt)]) for name in "ab"]
    assert first_prefill(runs[0], "a") == Prefill("a", 0, 200, 0, None, MissReason.COLD)
    assert first_prefill(runs[1], "b") == Prefill("b", 192, 200, 192, Tier.RAM, None)
    assert runs[0].tokens("a") == runs[1].tokens("b") == cold(request("a", prompt))["a"]
    batch.check_integrity()


every_family = pytest.mark.parametrize("family", [family.name for family in FAMILIES])


@every_family
def test_the_next_turn_of_a_conversation_finds_prompt_and_answer(family: str) -> None:
    batch = cached_batch(prefix_cache(family=family), family=family)
    history = tokens_of(2, 70)
    for turn in range(5):
        asked = request(f"t{turn}", history, max_tokens=70)
        run = together(batch, [asked])
        if turn:
            assert first_prefill(run, asked.id).cached >= (len(history) - 20) // BLOCK_TOKENS * BLOCK_TOKENS
        assert run.tokens(asked.id) == cold(asked, family=family)[asked.id]
        history = [*history, *run.tokens(asked.id), *tokens_of(turn, 5)][:320]
    batch.check_integrity()


@every_family
def test_rows_with_one_beginning_compute_it_once_even_when_they_come_together(family: str) -> None:
    shared = tokens_of(3, 150)
    rows = [
        request(f"r{i}", [*shared, *tokens_of(i, 10 + i)], max_tokens=20, seed=i, temperature=1.0) for i in range(4)
    ]
    batch = cached_batch(prefix_cache(family=family), family=family)
    run = together(batch, rows)
    assert [first_prefill(run, row.id).cached for row in rows] == [0, 128, 128, 128]
    assert {row.id: run.tokens(row.id) for row in rows} == cold(*rows, family=family)
    batch.check_integrity()


@pytest.mark.parametrize("family", [family.name for family in FAMILIES if not model_of(family.name).needs_checkpoints])
def test_a_restarted_engine_goes_on_from_disk(tmp_path: Path, family: str) -> None:
    prompt = tokens_of(4, 200)
    first = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"), family=family)
    before = together(cached_batch(first, family=family), [request("a", prompt, max_tokens=150)])
    first.close(deadline_s=10)
    second = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"), family=family)
    emitted = before.tokens("a")[:130]
    resumed = Submit("a", prompt, emitted, Sampling(seed=0, temperature=0), 150, [])
    after = together(cached_batch(second, family=family), [resumed])
    # Blocks that the first engine completed while the request ran are there too.
    assert first_prefill(after, "a") == Prefill("a", 320, 330, 320, Tier.DISK, None, from_disk=320)
    assert (
        emitted + after.tokens("a")
        == before.tokens("a")
        == cold(request("a", prompt, max_tokens=150), family=family)["a"]
    )
    second.close(deadline_s=10)


stateful_families = pytest.mark.parametrize(
    "family", [family.name for family in FAMILIES if model_of(family.name).needs_checkpoints]
)


@stateful_families
def test_a_restarted_engine_goes_on_from_the_last_checkpoint_on_disk(tmp_path: Path, family: str) -> None:
    """An answer's blocks go to disk as they become whole, its checkpoint when the row ends."""
    prompt = tokens_of(4, 200)
    asked = request("a", prompt, max_tokens=150)
    first = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"), family=family)
    before = together(cached_batch(first, family=family), [asked])
    first.close(deadline_s=10)
    assert before.tokens("a") == cold(asked, family=family)["a"]
    history = [*prompt, *before.tokens("a"), *tokens_of(5, 3)]
    second = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"), family=family)
    again = request("b", history)
    after = together(cached_batch(second, family=family), [again])
    assert first_prefill(after, "b") == Prefill("b", 320, 353, 320, Tier.DISK, None, from_disk=320)
    assert after.tokens("b") == cold(again, family=family)["b"]
    second.close(deadline_s=10)


@stateful_families
def test_a_prompt_that_forks_where_no_checkpoint_is_leaves_one_there(
    family: str,
) -> None:
    batch = cached_batch(prefix_cache(family=family), family=family)
    begun = tokens_of(13, 150)
    first = request("a", [*begun, *tokens_of(14, 100)])
    second, third = (request(name, [*begun, *tokens_of(seed, 60)]) for name, seed in (("b", 15), ("c", 16)))
    together(batch, [first])
    run = together(batch, [second])
    assert first_prefill(run, "b") == Prefill("b", 0, 210, 0, None, MissReason.NOT_TRIMMABLE)
    assert run.tokens("b") == cold(second, family=family)["b"]
    run = together(batch, [third])
    assert first_prefill(run, "c") == Prefill("c", 128, 210, 128, Tier.RAM, MissReason.DIVERGED, 150)
    assert run.tokens("c") == cold(third, family=family)["c"]
    batch.check_integrity()


@stateful_families
def test_a_row_waits_for_another_one_only_if_it_will_stop_where_they_fork(family: str) -> None:
    model, cache = model_of(family), prefix_cache(family=family)
    prompt = tokens_of(18, 300)
    lease = cache.lease(prompt)
    row, _ = cache.begin(lease, prompt)
    model.forward([row], [130], mx.array(prompt[:130]), [])
    early, late = (cache.lease([*prompt[:fork], *tokens_of(19, 100)]) for fork in (70, 200))
    assert not cache.should_wait(early)
    assert cache.should_wait(late)
    model.forward([row], [170], mx.array(prompt[130:]), [169])
    cache.end(lease, row, prompt)
    assert cache.begin(late, [*prompt[:200], *tokens_of(19, 100)])[1].tokens == 192


@stateful_families
def test_a_damaged_checkpoint_on_disk_is_passed_over(tmp_path: Path, family: str) -> None:
    prompt = tokens_of(17, 200)
    first = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"), family=family)
    before = together(cached_batch(first, family=family), [request("a", prompt)])
    first.close(deadline_s=10)
    (victim,) = (path for path in (tmp_path / "kv").rglob("*.safetensors") if b'"k' not in path.read_bytes()[:900])
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")
    second = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"), family=family)
    after = together(cached_batch(second, family=family), [request("a", prompt)])
    assert first_prefill(after, "a") == Prefill("a", 0, 200, 0, None, MissReason.NOT_TRIMMABLE)
    assert after.tokens("a") == before.tokens("a")
    second.close(deadline_s=10)


def test_a_damaged_block_on_disk_is_computed_again(tmp_path: Path) -> None:
    prompt = tokens_of(5, 200)
    first = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"))
    before = together(cached_batch(first), [request("a", prompt)])
    first.close(deadline_s=10)
    victim = max((tmp_path / "kv").rglob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")
    second = prefix_cache(disk=DiskTier(tmp_path / "kv", PLENTY, version="v1"))
    after = together(cached_batch(second), [request("a", prompt)])
    assert first_prefill(after, "a").cached < 192
    assert after.tokens("a") == before.tokens("a")
    second.close(deadline_s=10)


def test_what_ram_has_and_disk_lost_is_written_again(tmp_path: Path) -> None:
    prompt = tokens_of(6, 200)
    tier = DiskTier(tmp_path / "kv", PLENTY, version="v1")
    cache = prefix_cache(disk=tier)
    batch = cached_batch(cache)
    together(batch, [request("a", prompt)])
    assert tier.flush(10)
    (lost, *_) = (tmp_path / "kv").rglob("*.safetensors")
    whole = lost.read_bytes()
    lost.write_bytes(b"")
    assert tier.read(bytes.fromhex(lost.stem)) is None
    together(batch, [request("b", prompt)])
    assert tier.flush(10)
    assert lost.read_bytes()[200:] == whole[200:]
    cache.close(deadline_s=10)


@pytest.mark.parametrize(
    ("second", "reason", "diverged_at"),
    [
        (tokens_of(7, 150)[:100] + tokens_of(8, 50), MissReason.DIVERGED, 100),
        (tokens_of(9, 150), MissReason.COLD, None),
        (tokens_of(9, 30), MissReason.TOO_SHORT, None),
    ],
)
def test_a_miss_says_why(second: list[int], reason: MissReason, diverged_at: int | None) -> None:
    batch = cached_batch(prefix_cache())
    together(batch, [request("a", tokens_of(7, 150))])
    found = first_prefill(together(batch, [request("b", second)]), "b")
    assert (found.miss, found.diverged_at) == (reason, diverged_at)


def test_what_was_evicted_is_said_to_be_evicted() -> None:
    batch = cached_batch(prefix_cache(200_000))
    prompt = tokens_of(10, 150)
    together(batch, [request("a", prompt)])
    for i in range(6):
        together(batch, [request(f"x{i}", tokens_of(20 + i, 150))])
    assert first_prefill(together(batch, [request("b", prompt)]), "b").miss is MissReason.EVICTED


def test_an_aborted_prefill_is_not_lost() -> None:
    prompt = tokens_of(11, 300)
    batch = cached_batch(prefix_cache())
    script: list[list[Inbound]] = [
        [Command(0, request("a", prompt))],
        *([] for _ in range(6)),
        [Command(0, Cancel("a"))],
    ]
    Run(batch, script)
    run = together(batch, [request("b", prompt)])
    assert first_prefill(run, "b").cached >= 128
    assert run.tokens("b") == cold(request("b", prompt))["b"]


@dataclass(frozen=True)
class Circumstances:
    """Under what a wave of requests is served."""

    ram_bytes: int
    with_disk: bool
    restarts: bool


requests_on_two_beginnings = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.integers(1, 200),
        st.integers(0, 3),
        st.integers(1, 60),
        st.integers(1, 90),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@every_family
@settings(deadline=None, max_examples=10)
@given(
    waves=st.lists(requests_on_two_beginnings, min_size=1, max_size=4),
    under=st.builds(Circumstances, st.sampled_from([0, 150_000, PLENTY]), st.booleans(), st.booleans()),
    data=st.data(),
)
def test_whatever_the_cache_holds_outputs_are_those_of_a_cold_run(
    tmp_path_factory: pytest.TempPathFactory,
    family: str,
    waves: list[list[tuple[int, int, int, int, int, bool]]],
    under: Circumstances,
    data: st.DataObject,
) -> None:
    """Waves of requests on two beginnings, some cancelled, over small budgets, with restarts and drafts."""
    folder = tmp_path_factory.mktemp("kv")

    def new_cache() -> PrefixCache:
        return prefix_cache(under.ram_bytes, DiskTier(folder, 2_000_000, "v1") if under.with_disk else None, family)

    cache = new_cache()
    for wave, rows in enumerate(waves):
        requests = [
            request(
                f"w{wave}r{i}",
                [*tokens_of(beginning, 250)[:length], *tokens_of(100 + rest, more)],
                max_tokens=min(max_tokens, 390 - length - more),
                seed=i,
                temperature=0.8 if i % 2 else 0.0,
            )
            for i, (beginning, length, rest, more, max_tokens, _) in enumerate(rows)
        ]
        expected = cold(*requests, family=family)
        drafting = KnowingDrafting(expected, seed=wave) if model_of(family).trims else no_drafting()
        batch = cached_batch(cache, drafting, family)
        leave = [r for r, (*_, leaves) in zip(requests, rows, strict=True) if leaves]
        script: list[list[Inbound]] = [[Command(0, r) for r in requests]]
        script.extend([] for _ in range(data.draw(st.integers(0, 25))))
        script.append([Command(0, Cancel(r.id)) for r in leave])
        run = Run(batch, script)
        for r in requests:
            said = run.tokens(r.id)
            assert said == expected[r.id][: len(said)]
            assert r in leave or len(said) == r.max_tokens
        batch.check_integrity()
        assert cache.nbytes <= under.ram_bytes
        if under.restarts:
            cache.close(deadline_s=5)
            cache = new_cache()
    cache.close(deadline_s=5)


def test_the_disk_tier_is_not_waited_for(disk: DiskTier) -> None:
    """A row's blocks are queued; the step thread does not write."""
    batch = cached_batch(prefix_cache(disk=disk))
    began = time.monotonic()
    together(batch, [request("a", tokens_of(12, 300), max_tokens=80)])
    assert time.monotonic() - began < 30
    assert disk.flush(10)
    assert disk.snapshot().blocks == (300 + 80 - 1) // BLOCK_TOKENS


def test_a_request_that_goes_around_the_cache_is_computed_whole_and_leaves_nothing_behind() -> None:
    prompt = tokens_of(21, 200)
    batch = cached_batch(prefix_cache())
    around = msgspec.structs.replace(request("a", prompt), use_prefix_cache=False)
    run = together(batch, [around])
    assert first_prefill(run, "a") == Prefill("a", 0, 200, 0, None, None)
    after = together(batch, [request("b", prompt)])
    assert first_prefill(after, "b").cached == 0
    again = together(batch, [msgspec.structs.replace(around, id="c")])
    assert first_prefill(again, "c").cached == 0
    assert run.tokens("a") == after.tokens("b") == again.tokens("c")
    batch.check_integrity()
