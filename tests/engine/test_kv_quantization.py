"""Quantized KV: batched, shared, kept and resumed as KV is that is not, close to it, and refused where it cannot be."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import msgspec
import pytest

from stoker.engine.blocks import root_hash
from stoker.engine.errors import ModelError
from stoker.engine.kv_arrays import KVArray, Prefix, Quantization, SharedPart
from stoker.engine.kv_disk import DiskTier
from stoker.engine.mlx_batch import MlxBatch
from stoker.engine.prefix_blocks import BLOCK_TOKENS, blocks_of, prefix_from
from stoker.engine.prefix_cache import PrefixCache
from stoker.engine.protocol import Prefill, Submit, Tier
from stoker.engine.ragged import RaggedModel
from stoker.engine.ragged_attention import hook_attention

from .model_families import FAMILIES, VOCABULARY, Family, build, memory_for
from .test_mlx_batch import LIMITS, Run, no_drafting, outputs, together
from .test_prefix_cache import first_prefill, request, tokens_of

hook_attention()
GROUP = 32
PLENTY = 1 << 30
EIGHT, FOUR = Quantization(8, GROUP), Quantization(4, GROUP)

WIDE = {
    family.name: replace(family, config={**family.config, "head_dim": GROUP})
    for family in FAMILIES
    if family.name != "latent attention"
}
"""The families with heads that a group fits into."""
every_wide_family = pytest.mark.parametrize("family", list(WIDE))


@functools.cache
def weights_of(family: str) -> Any:
    return build(WIDE[family])


@functools.cache
def model_of(family: str, bits: int | None) -> RaggedModel:
    model = RaggedModel.probe(weights_of(family))
    if bits is not None:
        model.quantize_kv(Quantization(bits, GROUP))
    return model


def batch_of(model: RaggedModel, cache: PrefixCache | None = None) -> MlxBatch:
    return MlxBatch(
        model,
        name="test",
        limits=LIMITS,
        vocabulary=VOCABULARY,
        memory=memory_for(model),
        grammars=None,
        drafting=no_drafting(),
        prefixes=cache,
    )


def cache_of(model: RaggedModel, disk: DiskTier | None = None, kept: Quantization | None = None) -> PrefixCache:
    root = root_hash(model="test", mlx_lm="test", caches=[], block_tokens=BLOCK_TOKENS, kv="test")
    return PrefixCache(root, PLENTY, disk, model, kept)


def differences(ours: mx.array, theirs: mx.array) -> mx.array:
    """Of logits, in units of their spread."""
    return mx.abs(ours - theirs) / mx.std(theirs)


@every_wide_family
@pytest.mark.parametrize("bits", [8, 4])
def test_rows_together_have_the_logits_of_each_alone(family: str, bits: int) -> None:
    """Where sums are added up in another order, a number may be rounded to the step beside it: seldom."""
    model = model_of(family, bits)
    prompts = [tokens_of(seed, length) for seed, length in ((1, 40), (2, 7), (3, 21))]
    rows = [model.new_row() for _ in prompts]
    counts = [len(prompt) for prompt in prompts]
    model.forward(rows, counts, mx.array([token for prompt in prompts for token in prompt]), [])
    together = [model.forward(rows, [1, 1, 1], mx.array([5, 6, 7 + step]), [0, 1, 2]) for step in range(4)]
    for i, prompt in enumerate(prompts):
        row = model.new_row()
        model.forward([row], [len(prompt)], mx.array(prompt), [])
        fed = [[5] * 4, [6] * 4, [7, 8, 9, 10]][i]
        alone = [model.forward([row], [1], mx.array([token]), [0]) for token in fed]
        apart = differences(mx.stack([step[i] for step in together]), mx.concatenate(alone))
        assert float(mx.median(apart)) < 1e-2


@every_wide_family
@pytest.mark.parametrize("bits", [8, 4])
def test_hits_from_ram_and_from_disk_say_what_a_cold_run_says(tmp_path: Path, family: str, bits: int) -> None:
    model = model_of(family, bits)
    prompt = tokens_of(1, 200)
    expected = outputs(batch_of(model), [request("a", prompt, max_tokens=30)])["a"]
    cache = cache_of(model, DiskTier(tmp_path, PLENTY, version="v1"))
    batch = batch_of(model, cache)
    rows = [request(name, prompt, max_tokens=30) for name in "abc"]
    run = together(batch, rows)
    assert [first_prefill(run, row.id).cached for row in rows] == [0, 192, 192]
    assert [run.tokens(row.id) for row in rows] == [expected] * 3
    batch.check_integrity()
    cache.close(deadline_s=10)
    restarted = cache_of(model, DiskTier(tmp_path, PLENTY, version="v1"))
    run = together(batch_of(model, restarted), rows[:1])
    assert first_prefill(run, "a") == Prefill("a", 192, 200, 192, Tier.DISK, None, from_disk=192)
    assert run.tokens("a") == expected
    restarted.close(deadline_s=10)


def test_a_draft_that_is_taken_back_leaves_what_was_before() -> None:
    model = model_of("plain", 8)
    assert model.trims
    rows = [model.new_row(), model.new_row()]
    for row in rows:
        model.forward([row], [40], mx.array(tokens_of(7, 40)), [])
    model.forward(rows[:1], [6], mx.array(tokens_of(8, 6)), [])
    model.trim(rows[0], 6)
    ours, theirs = (model.forward([row], [1], mx.array([9]), [0]) for row in rows)
    assert mx.array_equal(ours, theirs).item()


def test_a_row_that_has_computed_nothing_takes_no_memory() -> None:
    """mlx-lm's own cache class raised here, when memory was read between admission and first step."""
    assert model_of("plain", 8).new_row().nbytes == 0


def logits_of(model: RaggedModel, tokens: list[int]) -> mx.array:
    row = model.new_row()
    return model.forward([row], [len(tokens)], mx.array(tokens), list(range(len(tokens))))


@every_wide_family
def test_logits_stay_close_to_those_of_full_precision(family: str) -> None:
    tokens = tokens_of(2, 100)
    full = logits_of(model_of(family, None), tokens)
    for bits, bound in ((8, 0.2), (4, 0.7)):
        error = differences(logits_of(model_of(family, bits), tokens), full)
        assert float(mx.sqrt(mx.mean(error**2))) < bound


def test_quantized_rows_take_a_fraction_of_the_memory() -> None:
    sizes = []
    for bits in (None, 8, 4):
        model = model_of("plain", bits)
        row = model.new_row()
        model.forward([row], [256], mx.array(tokens_of(3, 256)), [])
        sizes.append(row.nbytes)
    # A group of 32 has its scale and bias, 32 bits each in a float32 model.
    assert sizes[1:] == [sizes[0] * (8 + 2) // 32, sizes[0] * (4 + 2) // 32]


def test_a_model_with_attention_of_its_own_is_refused() -> None:
    family = next(family for family in FAMILIES if family.name == "latent attention")
    with pytest.raises(ModelError, match="attends in a way of its own"):
        RaggedModel.probe(build(family)).quantize_kv(EIGHT)


def test_heads_that_no_group_divides_are_refused() -> None:
    narrow = next(family for family in FAMILIES if family.name == "plain")
    with pytest.raises(ModelError, match="16 wide, which groups of 32 do not divide"):
        RaggedModel.probe(build(narrow)).quantize_kv(EIGHT)


def test_a_purely_recurrent_model_has_nothing_to_quantize() -> None:
    config = {
        "state_size": 8,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
        "mamba_d_conv": 4,
    }
    with pytest.raises(ModelError, match="no keys and values that grow"):
        RaggedModel.probe(build(Family("recurrent", "mamba", WIDE["plain"].mode, config))).quantize_kv(EIGHT)


@pytest.mark.parametrize("how", [EIGHT, FOUR], ids=str)
def test_packed_products_are_those_of_the_unpacked_array(monkeypatch: pytest.MonkeyPatch, how: Quantization) -> None:
    """GPUs multiply packed arrays as they are; the kernel for it is there on a CPU too, only slow."""
    kv = KVArray((mx.random.normal((1, 2, 70, GROUP)),)).quantized(how)
    queries, weights = mx.random.normal((1, 2, 5, GROUP)), mx.random.normal((1, 2, 5, 70))
    unpacked = kv.scores(queries), kv.weighted(weights)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu, 0))
    for packed, expected in zip((kv.scores(queries), kv.weighted(weights)), unpacked, strict=True):
        assert mx.allclose(packed, expected, rtol=1e-4, atol=1e-4).item()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("how", [None, EIGHT, FOUR], ids=str)
def test_blocks_for_files_become_the_same_prefix_again(dtype: mx.Dtype, how: Quantization | None) -> None:
    plain = [KVArray((mx.random.normal((1, 2, 3 * BLOCK_TOKENS, 64)).astype(dtype),)) for _ in range(4)]
    arrays = [each.quantized(how) if how is not None else each for each in plain]
    prefix = Prefix((SharedPart(*arrays[:2]), SharedPart(*arrays[2:])), 3 * BLOCK_TOKENS)
    again = prefix_from(blocks_of(prefix), how)
    assert again.tokens == prefix.tokens
    for one, other in zip(prefix.layers, again.layers, strict=True):
        for ours, theirs in ((one.keys, other.keys), (one.values, other.values)):
            assert ours.quantization == theirs.quantization
            assert all(mx.array_equal(a, b).item() for a, b in zip(ours.arrays, theirs.arrays, strict=True))


@every_wide_family
def test_a_cache_that_alone_is_quantized_is_small_and_gives_nearly_what_was_computed(
    tmp_path: Path, family: str
) -> None:
    model = model_of(family, None)
    prompt = tokens_of(4, 300)
    full, small = cache_of(model), cache_of(model, DiskTier(tmp_path, PLENTY, version="v1"), EIGHT)
    asked = with_logprobs(request("a", prompt))
    runs = [together(batch_of(model, cache), [asked]) for cache in (full, small)]
    # Who computes a prompt goes on with what was computed.
    assert runs[0].tokens("a") == runs[1].tokens("a")
    checkpoints = 0 if not model.needs_checkpoints else full.nbytes  # their share stays as it is
    assert small.nbytes < 0.4 * full.nbytes + checkpoints
    batch = batch_of(model, small)
    hit = together(batch, [with_logprobs(request(name, prompt)) for name in "ab"])
    assert first_prefill(hit, "a").cached == 256
    assert first_logprob(hit, "a") == pytest.approx(first_logprob(runs[0], "a"), abs=0.5)
    held = small.nbytes
    batch.check_integrity()
    small.close(deadline_s=10)
    restarted = cache_of(model, DiskTier(tmp_path, PLENTY, version="v1"), EIGHT)
    again = together(batch_of(model, restarted), [with_logprobs(request("a", prompt))])
    assert first_prefill(again, "a").tier is Tier.DISK
    assert again.tokens("a") == hit.tokens("a")
    assert restarted.nbytes <= held
    restarted.close(deadline_s=10)


def test_what_is_unpacked_for_rows_counts_while_they_read_it() -> None:
    model = model_of("plain", None)
    cache = cache_of(model, kept=EIGHT)
    prompt = tokens_of(5, 200)
    together(batch_of(model, cache), [request("a", prompt)])
    kept = cache.nbytes
    lease = cache.lease(prompt)
    row, found = cache.begin(lease, prompt)
    assert found.tokens == 192
    assert cache.nbytes == kept + 192 * 4 * 2 * 2 * GROUP * 4  # layers, keys and values, heads, width, bytes
    cache.end(lease, row, prompt)
    del row, lease
    assert cache.nbytes == kept


def with_logprobs(asked: Submit) -> Submit:
    return msgspec.structs.replace(asked, sampling=msgspec.structs.replace(asked.sampling, top_logprobs=0))


def first_logprob(run: Run, name: str) -> float:
    return run.logprobs(name)[0].logprob


@pytest.mark.model
def test_the_demo_model_stays_sensible_in_eight_bits(demo_model: Path) -> None:
    weights, tokenizer = mlx_lm.load(str(demo_model))
    question = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )
    full, small = RaggedModel.probe(weights), RaggedModel.probe(weights)
    small.quantize_kv(Quantization(8, 64))
    exact = logits_of(full, question)
    error = differences(logits_of(small, question), exact)
    assert float(mx.sqrt(mx.mean(error**2))) < 0.05
    answer = [*question, *tokenizer.encode("The capital of France is", add_special_tokens=False)]
    assert tokenizer.decode(int(mx.argmax(logits_of(small, answer)[-1]))) == " Paris"
