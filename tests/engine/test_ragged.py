"""Ragged forward passes on every cache family: rows together give the logits of each row alone."""

from __future__ import annotations

import functools
from itertools import accumulate
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.kv_arrays import Prefix
from stoker.engine.ragged import Mode, RaggedModel
from stoker.engine.ragged_attention import hook_attention, softmax
from stoker.engine.row_state import kv_leaves

from .model_families import FAMILIES, VOCABULARY, Family, build

hook_attention()


@functools.cache
def model_of(name: str) -> Any:
    return build(next(family for family in FAMILIES if family.name == name))


def run(
    model: RaggedModel, rows: list[list[list[int]]], wanted: set[tuple[int, int]]
) -> dict[tuple[int, int], mx.array]:
    """Feed each row its pieces, all rows' n-th pieces in one pass; the logits after the wanted (row, piece)s."""
    states = [model.new_row() for _ in rows]
    logits: dict[tuple[int, int], mx.array] = {}
    for turn in range(max(len(pieces) for pieces in rows)):
        here = [row for row, pieces in enumerate(rows) if turn < len(pieces)]
        counts = [len(rows[row][turn]) for row in here]
        ids = mx.array([token for row in here for token in rows[row][turn]])
        asked = [i for i, row in enumerate(here) if (row, turn) in wanted]
        ends = list(accumulate(counts))
        out = model.forward([states[row] for row in here], counts, ids, [ends[i] - 1 for i in asked])
        logits |= {(here[i], turn): out[index] for index, i in enumerate(asked)}
    for state, pieces in zip(states, rows, strict=True):
        assert state.length == sum(map(len, pieces))
    return logits


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_each_family_gets_the_fastest_mode_that_is_right_for_it(family: Family) -> None:
    assert RaggedModel.probe(model_of(family.name)).mode is family.mode


pieces_of_a_row = st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=13), min_size=1, max_size=5)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@settings(deadline=None, max_examples=15)
@given(data=st.data(), rows=st.lists(pieces_of_a_row, min_size=2, max_size=5))
def test_rows_together_equal_rows_alone(family: Family, data: st.DataObject, rows: list[list[list[int]]]) -> None:
    pieces = [(row, turn) for row, of_row in enumerate(rows) for turn in range(len(of_row))]
    wanted = data.draw(st.sets(st.sampled_from(pieces), min_size=1))
    model = model_of(family.name)
    together = run(RaggedModel(model, family.mode), rows, wanted)
    assert together.keys() == wanted
    for row, of_row in enumerate(rows):
        alone = run(RaggedModel(model, Mode.ROWWISE), [of_row], {(0, turn) for of, turn in wanted if of == row})
        for (_, turn), logits in alone.items():
            assert logits.shape == (VOCABULARY,)
            assert mx.allclose(together[row, turn], logits, rtol=1e-3, atol=1e-3).item()


def test_a_model_that_refused_a_ragged_batch_gives_the_logits_it_gave_before() -> None:
    """A refused probe once left the model cutting its output to rows that did not exist."""
    model = build(next(family for family in FAMILIES if family.name == "latent attention"))
    before = run(RaggedModel(model, Mode.ROWWISE), [[[0], [5, 6]]], {(0, 0), (0, 1)})
    mx.eval(before)
    after = run(RaggedModel.probe(model), [[[0], [5, 6]]], {(0, 0), (0, 1)})
    for piece, logits in before.items():
        assert mx.array_equal(after[piece], logits).item()


def test_a_model_that_raises_on_a_ragged_batch_runs_row_by_row() -> None:
    plain = model_of("plain")

    class Fussy:
        layers = plain.layers

        def __call__(self, ids: mx.array, cache: Any) -> mx.array:
            if ids.shape[0] > 1:
                raise ValueError("one row at a time, please")
            logits: mx.array = plain(ids, cache=cache)
            return logits

    assert RaggedModel.probe(Fussy()).mode is Mode.ROWWISE


def prefix_of(model: RaggedModel, tokens: list[int]) -> Prefix:
    """The KV of these tokens, computed by a row of their own."""
    row = model.new_row()
    model.forward([row], [len(tokens)], mx.array(tokens), [])
    return Prefix.copied(kv_leaves(row.caches), 0, row.length)


tokens = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20)


@pytest.mark.parametrize("name", ["plain", "mixture of experts"])
@settings(deadline=None, max_examples=25)
@given(data=st.data(), whole=st.lists(st.integers(0, VOCABULARY - 1), min_size=2, max_size=40))
def test_rows_on_a_shared_prefix_equal_rows_that_computed_it(name: str, data: st.DataObject, whole: list[int]) -> None:
    """Some rows read all of a prefix, some only its beginning, some it in two parts, and one reads none."""
    model = RaggedModel.probe(model_of(name))
    assert model.resumes and model.shares_parts
    prefix = prefix_of(model, whole)
    cut = data.draw(st.integers(1, len(whole) - 1))
    first, second = prefix.piece(0, cut), prefix.piece(cut, len(whole) - cut)
    kinds = [([prefix], whole), ([first], whole[:cut]), ([first, second], whole), ([], [])]
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    continuations = [data.draw(st.tuples(tokens, tokens)) for _ in chosen]
    rows = [model.new_row(prefixes) for prefixes, _ in chosen]
    together = []
    for turn in (0, 1):
        pieces = [continuation[turn] for continuation in continuations]
        ids = mx.array([token for piece in pieces for token in piece])
        counts = [len(piece) for piece in pieces]
        together.append(model.forward(rows, counts, ids, [end - 1 for end in accumulate(counts)]))
    for i, (_, begun) in enumerate(chosen):
        one, two = continuations[i]
        history = [[*begun, *one], two]
        alone = run(RaggedModel(model_of(name), Mode.ROWWISE), [history], {(0, 0), (0, 1)})
        for turn in (0, 1):
            assert mx.allclose(together[turn][i], alone[0, turn], rtol=1e-3, atol=1e-3).item()
        assert rows[i].length == len(begun) + len(one) + len(two)


def test_pieces_joined_are_the_whole() -> None:
    model = RaggedModel.probe(model_of("plain"))
    whole = prefix_of(model, list(range(30)))
    joined = Prefix.joined([whole.piece(0, 7), whole.piece(7, 20), whole.piece(27, 3)])
    assert joined.tokens == 30
    assert joined.nbytes == whole.nbytes
    for one, other in zip(whole.layers, joined.layers, strict=True):
        assert mx.array_equal(one.keys.dense(), other.keys.dense()).item()
        assert mx.array_equal(one.values.dense(), other.values.dense()).item()


@pytest.mark.parametrize("columns", [3, 3000, 60_000], ids=["few", "more", "many"])
def test_a_softmax_of_any_size_is_exact(columns: int) -> None:
    scores = mx.random.normal((1, 2, 3, columns), key=mx.random.key(columns)) * 4
    scores = mx.where(mx.arange(columns) % 7 == 6, -mx.inf, scores)
    exact = np.exp(np.array(scores, dtype=np.float64))
    exact /= exact.sum(axis=-1, keepdims=True)
    assert np.allclose(np.array(softmax(scores)), exact, rtol=1e-5, atol=1e-9)
    half = softmax(scores.astype(mx.float16))
    assert half.dtype == mx.float16
    assert np.allclose(np.array(half), exact, rtol=0.1, atol=1e-3)
