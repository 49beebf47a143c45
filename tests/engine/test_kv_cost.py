"""What KV takes is known before it is there: what the cost says of a row is what its caches hold."""

from __future__ import annotations

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.kv_cost import KvBudget, KvCost, Layer
from stoker.engine.memory import LEAST_KV_BYTES, Bounds, kv_cost

from .model_families import FAMILIES, Family
from .test_mlx_batch import model_of

GB = 1 << 30


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_cost_of_a_row_bounds_what_its_caches_hold(family: Family) -> None:
    model = model_of(family.name)
    cost, row = kv_cost(model), model.new_row()
    for count in (1, 30, 219, 20, 1, 40, *[1] * 250):
        model.forward([row], [count], mx.zeros(count, mx.uint32), wanted=[])
        held = sum(cache.nbytes for cache in row.caches)
        assert held <= cost.of(row.length)
        if family.name in ("plain", "mixture of experts", "latent attention"):
            assert cost.of(row.length) < held + cost.of(1), "no more than a step too much"


def test_kv_that_lies_elsewhere_costs_a_row_nothing_but_a_window_is_its_own() -> None:
    cost = KvCost([Layer(10, step=4), Layer(10, step=4), Layer(7, step=4, window=8)], fixed=100)
    assert cost.of(0) == 100
    assert cost.of(5) == 100 + 20 * 8 + 7 * 8
    assert cost.of(100, shared=96) == 100 + 20 * 7 + 7 * 12


@given(st.integers(1, 1000), st.integers(1, 300), st.integers(0, 10**6), st.integers(0, 5000))
def test_the_most_tokens_that_fit_fit_and_one_more_does_not(
    token_bytes: int, step: int, budget: int, fixed: int
) -> None:
    cost = KvCost([Layer(token_bytes, step)], fixed)
    tokens = KvBudget(cost, budget).tokens
    assert tokens == 0 or cost.of(tokens) <= budget
    assert cost.of(tokens + 1) > budget


def test_a_draft_models_kv_counts_too_and_shares_nothing() -> None:
    budget = KvBudget(KvCost([Layer(10)]), 1000, draft_cost=KvCost([Layer(5)]))
    assert budget.taken([(30, 10), (2, 0)]) == 200 + 150 + 30
    assert budget.tokens == 66


def test_the_budget_is_what_weights_pool_and_headroom_leave() -> None:
    bounds = Bounds(limit=None, available=20 * GB, pool=GB)
    assert bounds.kv_budget(weights=5 * GB) == 12 * GB
    assert bounds.kv_budget(weights=19 * GB) == LEAST_KV_BYTES
