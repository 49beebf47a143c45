"""Ragged forward passes on every cache family: rows together give the logits of each row alone."""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.ragged import Mode, Span, forward, hook_attention, new_row, probe_mode

from .model_families import FAMILIES, VOCABULARY, Family, build

hook_attention()


@functools.cache
def model_of(name: str) -> Any:
    return build(next(family for family in FAMILIES if family.name == name))


def run(model: Any, mode: Mode, rows: list[list[list[int]]]) -> list[list[mx.array]]:
    """Feed each row its pieces, all rows' n-th pieces in one pass; returns the logits after each piece."""
    states = [new_row(model) for _ in rows]
    logits: list[list[mx.array]] = [[] for _ in rows]
    for turn in range(max(len(pieces) for pieces in rows)):
        here = [index for index, pieces in enumerate(rows) if turn < len(pieces)]
        spans = [Span(states[i], mx.array(rows[i][turn]), len(rows[i][turn])) for i in here]
        out = forward(model, mode, spans)
        assert out.shape == (len(spans), VOCABULARY)
        for index, piece in zip(here, out, strict=True):
            logits[index].append(piece)
    for index, pieces in enumerate(rows):
        assert states[index].length == sum(map(len, pieces))
    return logits


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_each_family_gets_the_fastest_mode_that_is_right_for_it(family: Family) -> None:
    assert probe_mode(model_of(family.name)) is family.mode


pieces_of_a_row = st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=13), min_size=1, max_size=5)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@settings(deadline=None, max_examples=15)
@given(rows=st.lists(pieces_of_a_row, min_size=2, max_size=5))
def test_rows_together_equal_rows_alone(family: Family, rows: list[list[list[int]]]) -> None:
    model = model_of(family.name)
    together = run(model, family.mode, rows)
    for row, of_row in zip(rows, together, strict=True):
        (alone,) = run(model, Mode.ROWWISE, [row])
        for one, other in zip(of_row, alone, strict=True):
            assert mx.allclose(one, other, rtol=1e-3, atol=1e-3).item()


def test_a_model_that_raises_on_a_ragged_batch_runs_row_by_row() -> None:
    plain = model_of("plain")

    class Fussy:
        layers = plain.layers

        def __call__(self, ids: mx.array, cache: Any) -> mx.array:
            if ids.shape[0] > 1:
                raise ValueError("one row at a time, please")
            logits: mx.array = plain(ids, cache=cache)
            return logits

    assert probe_mode(Fussy()) is Mode.ROWWISE
