"""Rows that attend together over copies of their KV say what they say alone, whoever joins and leaves."""

from __future__ import annotations

import random
from collections.abc import Sequence

import mlx.core as mx
import pytest

from stoker.engine.protocol import Sampling, Submit
from stoker.engine.ragged import RaggedModel
from stoker.engine.row_stack import CALM_PASSES, MAX_TOKENS
from stoker.engine.row_state import RowState, kv_leaves

from .model_families import FAMILIES, VOCABULARY, build
from .test_mlx_batch import batch_of, model_of, no_drafting, outputs, stacking_model_of

PLAIN = next(family for family in FAMILIES if family.name == "plain")


@pytest.fixture
def model() -> RaggedModel:
    model = RaggedModel.probe(build(PLAIN))
    model.stack_short_rows(limit_bytes=1 << 30)
    return model


def begun(model: RaggedModel, *lengths: int) -> list[RowState]:
    """Rows with so many tokens each."""
    rows = [model.new_row() for _ in lengths]
    model.forward(rows, lengths, mx.array([i % VOCABULARY for length in lengths for i in range(length)]), wanted=[])
    return rows


def one_token_each(model: RaggedModel, rows: Sequence[RowState], passes: int) -> mx.array:
    for token in range(passes):
        ids = mx.array([(token + i) % VOCABULARY for i in range(len(rows))])
        logits = model.forward(rows, [1] * len(rows), ids, wanted=range(len(rows)))
        mx.eval(logits)
    return logits


def test_the_plain_family_stacks_and_recurrent_state_and_windows_do_not() -> None:
    stacks = {family.name for family in FAMILIES if stacking_model_of(family.name).stacks}
    assert "plain" in stacks
    assert not any("window" in name or "hybrid" in name for name in stacks)


def test_short_rows_are_stacked_once_they_have_been_calm_and_say_the_same(model: RaggedModel) -> None:
    rows, alone = begun(model, 5, 40, 17), begun(model_of("plain"), 5, 40, 17)
    one_token_each(model, rows, CALM_PASSES)
    assert model.stacked_nbytes == 0
    stacked = one_token_each(model, rows, 70)
    assert model.stacked_nbytes > 0
    one_token_each(model_of("plain"), alone, CALM_PASSES)
    assert mx.allclose(stacked, one_token_each(model_of("plain"), alone, 70), rtol=1e-4, atol=1e-4)


def test_the_caches_of_a_stacked_row_have_all_of_its_tokens(model: RaggedModel) -> None:
    rows, alone = begun(model, 5, 40), begun(model_of("plain"), 5, 40)
    for each, whose in ((model, rows), (model_of("plain"), alone)):
        one_token_each(each, whose, CALM_PASSES + 3)
    for row, expected in zip(rows, alone, strict=True):
        for kept, right in zip(kv_leaves(row.caches), kv_leaves(expected.caches), strict=True):
            assert kept.offset == right.offset == row.length
            assert mx.allclose(kept.state[0], right.state[0], rtol=1e-4, atol=1e-4)


def test_a_row_that_gets_several_tokens_or_grows_long_goes_on_by_itself(model: RaggedModel) -> None:
    several, short, long = begun(model, 5, 40, MAX_TOKENS - CALM_PASSES - 3)
    one_token_each(model, [several, short, long], CALM_PASSES + 1)
    assert all(row.stack is not None for row in (several, short, long))
    model.forward([several, short, long], [3, 1, 1], mx.array([1, 2, 3, 4, 5]), wanted=[])
    assert several.stack is None
    assert short.stack is not None
    one_token_each(model, [several, short, long], CALM_PASSES + 1)
    assert several.stack is short.stack is not None
    assert long.stack is None


def test_memory_for_stacks_is_bounded_and_given_back(model: RaggedModel) -> None:
    rows = begun(model, 5, 40)
    one_token_each(model, rows, CALM_PASSES + 1)
    taken = model.stacked_nbytes
    model.drop_stack()
    assert model.stacked_nbytes == 0
    model.stack_short_rows(limit_bytes=taken // 2)
    one_token_each(model, rows, 2 * CALM_PASSES + 2)
    assert model.stacked_nbytes == 0


def test_nothing_is_left_once_its_rows_have_ended() -> None:
    model = stacking_model_of("plain")
    batch = batch_of(model, no_drafting(), runs_ahead=False)
    requests = [Submit(f"r{i}", _prompt(i), [], Sampling(seed=i), 10 + 20 * i, []) for i in range(4)]
    said = outputs(batch, requests)
    assert model.stacked_nbytes == batch.memory().kv == 0
    for request in requests:
        assert outputs(batch_of(model_of("plain"), no_drafting()), [request]) == {request.id: said[request.id]}


def _prompt(seed: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(VOCABULARY) for _ in range(10 + 15 * seed)]
