"""The prefix cache under the real batch: a hit, from RAM or disk, says what a cold run says, and nothing leaks."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.blocks import root_hash
from stoker.engine.drafting import Drafting
from stoker.engine.kv_disk import DiskTier
from stoker.engine.link import Command, Inbound
from stoker.engine.mlx_batch import MlxBatch
from stoker.engine.prefix_cache import BLOCK_TOKENS, PrefixCache
from stoker.engine.protocol import Cancel, MissReason, Prefill, Sampling, Submit, Tier

from .model_families import VOCABULARY, memory_for
from .test_mlx_batch import LIMITS, KnowingDrafting, Run, batch_of, model_of, no_drafting, outputs, together

ROOT = root_hash(model="test", mlx_lm="test", caches=["KVCache"], block_tokens=BLOCK_TOKENS, kv="f32")
PLENTY = 1 << 30


def cached_batch(cache: PrefixCache, drafting: Drafting | None = None) -> MlxBatch:
    model = model_of("plain")
    assert model.shares_prefixes
    return MlxBatch(
        model,
        name="test",
        limits=LIMITS,
        vocabulary=VOCABULARY,
        memory=memory_for(model),
        grammars=None,
        drafting=drafting or no_drafting(),
        prefixes=cache,
    )


def tokens_of(seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(VOCABULARY) for _ in range(count)]


def request(name: str, prompt: Sequence[int], max_tokens: int = 8, seed: int = 0, temperature: float = 0.0) -> Submit:
    return Submit(name, list(prompt), [], Sampling(seed=seed, temperature=temperature), max_tokens, [])


def cold(*requests: Submit) -> dict[str, list[int]]:
    return outputs(batch_of(model_of("plain"), no_drafting()), requests)


def first_prefill(run: Run, name: str) -> Prefill:
    return next(o.event for o in run.events if isinstance(o.event, Prefill) and o.event.id == name)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskTier]:
    tier = DiskTier(tmp_path / "kv", PLENTY, version="v1")
    yield tier
    tier.close()


def test_the_second_of_two_equal_prompts_computes_its_last_block_only() -> None:
    prompt = tokens_of(1, 200)
    batch = cached_batch(PrefixCache(ROOT, PLENTY, None))
    runs = [together(batch, [request(name, prompt)]) for name in "ab"]
    assert first_prefill(runs[0], "a") == Prefill("a", 0, 200, 0, None, MissReason.COLD)
    assert first_prefill(runs[1], "b") == Prefill("b", 192, 200, 192, Tier.RAM, None)
    assert runs[0].tokens("a") == runs[1].tokens("b") == cold(request("a", prompt))["a"]
    batch.check_integrity()


def test_the_next_turn_of_a_conversation_finds_prompt_and_answer() -> None:
    batch = cached_batch(PrefixCache(ROOT, PLENTY, None))
    history = tokens_of(2, 70)
    for turn in range(5):
        asked = request(f"t{turn}", history, max_tokens=70)
        run = together(batch, [asked])
        if turn:
            assert first_prefill(run, asked.id).cached >= (len(history) - 20) // BLOCK_TOKENS * BLOCK_TOKENS
        assert run.tokens(asked.id) == cold(asked)[asked.id]
        history = [*history, *run.tokens(asked.id), *tokens_of(turn, 5)][:320]
    batch.check_integrity()


def test_rows_with_one_beginning_compute_it_once_even_when_they_come_together() -> None:
    shared = tokens_of(3, 150)
    rows = [
        request(f"r{i}", [*shared, *tokens_of(i, 10 + i)], max_tokens=20, seed=i, temperature=1.0) for i in range(4)
    ]
    batch = cached_batch(PrefixCache(ROOT, PLENTY, None))
    run = together(batch, rows)
    assert [first_prefill(run, row.id).cached for row in rows] == [0, 128, 128, 128]
    assert {row.id: run.tokens(row.id) for row in rows} == cold(*rows)
    batch.check_integrity()


def test_a_restarted_engine_goes_on_from_disk(tmp_path: Path) -> None:
    prompt = tokens_of(4, 200)
    first = PrefixCache(ROOT, PLENTY, DiskTier(tmp_path / "kv", PLENTY, version="v1"))
    before = together(cached_batch(first), [request("a", prompt, max_tokens=150)])
    first.close(deadline_s=10)
    second = PrefixCache(ROOT, PLENTY, DiskTier(tmp_path / "kv", PLENTY, version="v1"))
    emitted = before.tokens("a")[:130]
    resumed = Submit("a", prompt, emitted, Sampling(seed=0, temperature=0), 150, [])
    after = together(cached_batch(second), [resumed])
    # Blocks that the first engine completed while the request ran are there too.
    assert first_prefill(after, "a") == Prefill("a", 320, 330, 320, Tier.DISK, None, from_disk=320)
    assert emitted + after.tokens("a") == before.tokens("a") == cold(request("a", prompt, max_tokens=150))["a"]
    second.close(deadline_s=10)


def test_a_damaged_block_on_disk_is_computed_again(tmp_path: Path) -> None:
    prompt = tokens_of(5, 200)
    first = PrefixCache(ROOT, PLENTY, DiskTier(tmp_path / "kv", PLENTY, version="v1"))
    before = together(cached_batch(first), [request("a", prompt)])
    first.close(deadline_s=10)
    victim = max((tmp_path / "kv").rglob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")
    second = PrefixCache(ROOT, PLENTY, DiskTier(tmp_path / "kv", PLENTY, version="v1"))
    after = together(cached_batch(second), [request("a", prompt)])
    assert first_prefill(after, "a").cached < 192
    assert after.tokens("a") == before.tokens("a")
    second.close(deadline_s=10)


def test_what_ram_has_and_disk_lost_is_written_again(tmp_path: Path) -> None:
    prompt = tokens_of(6, 200)
    tier = DiskTier(tmp_path / "kv", PLENTY, version="v1")
    cache = PrefixCache(ROOT, PLENTY, tier)
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
    batch = cached_batch(PrefixCache(ROOT, PLENTY, None))
    together(batch, [request("a", tokens_of(7, 150))])
    found = first_prefill(together(batch, [request("b", second)]), "b")
    assert (found.miss, found.diverged_at) == (reason, diverged_at)


def test_what_was_evicted_is_said_to_be_evicted() -> None:
    batch = cached_batch(PrefixCache(ROOT, 200_000, None))
    prompt = tokens_of(10, 150)
    together(batch, [request("a", prompt)])
    for i in range(6):
        together(batch, [request(f"x{i}", tokens_of(20 + i, 150))])
    assert first_prefill(together(batch, [request("b", prompt)]), "b").miss is MissReason.EVICTED


def test_an_aborted_prefill_is_not_lost() -> None:
    prompt = tokens_of(11, 300)
    batch = cached_batch(PrefixCache(ROOT, PLENTY, None))
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


@settings(deadline=None, max_examples=25)
@given(
    waves=st.lists(requests_on_two_beginnings, min_size=1, max_size=4),
    under=st.builds(Circumstances, st.sampled_from([0, 150_000, PLENTY]), st.booleans(), st.booleans()),
    data=st.data(),
)
def test_whatever_the_cache_holds_outputs_are_those_of_a_cold_run(
    tmp_path_factory: pytest.TempPathFactory,
    waves: list[list[tuple[int, int, int, int, int, bool]]],
    under: Circumstances,
    data: st.DataObject,
) -> None:
    """Waves of requests on two beginnings, some cancelled, over small budgets, with restarts and drafts."""
    folder = tmp_path_factory.mktemp("kv")

    def new_cache() -> PrefixCache:
        return PrefixCache(ROOT, under.ram_bytes, DiskTier(folder, 2_000_000, "v1") if under.with_disk else None)

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
        expected = cold(*requests)
        batch = cached_batch(cache, KnowingDrafting(expected, seed=wave))
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
        assert cache.ram_nbytes <= under.ram_bytes
        if under.restarts:
            cache.close(deadline_s=5)
            cache = new_cache()
    cache.close(deadline_s=5)


def test_the_disk_tier_is_not_waited_for(disk: DiskTier) -> None:
    """A row's blocks are queued; the step thread does not write."""
    batch = cached_batch(PrefixCache(ROOT, PLENTY, disk))
    began = time.monotonic()
    together(batch, [request("a", tokens_of(12, 300), max_tokens=80)])
    assert time.monotonic() - began < 30
    assert disk.flush(10)
    assert disk.snapshot().blocks == (300 + 80 - 1) // BLOCK_TOKENS
