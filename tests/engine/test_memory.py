"""Memory comes back: what requests took is free once they have ended or were cancelled, and on demand what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx

from stoker.config import Engine
from stoker.engine.link import Command
from stoker.engine.memory import held
from stoker.engine.protocol import Sampling, Submit
from tests.bench.memory_returns import load, memory_after

from ..tiny_models import make_tiny_llama
from .test_mlx_batch import Run

KV_BUDGET = 1_500_000
"""Of the tiny model, for half of what runs at once."""


def test_active_memory_returns_after_many_requests_half_of_them_cancelled(tmp_path: Path) -> None:
    batch = load(make_tiny_llama(tmp_path / "model"), tmp_path, Engine(kv_budget_bytes=KV_BUDGET))
    figures = memory_after(batch, requests=60, seconds=60)
    batch.close()
    assert figures["cancelled"] > 10
    assert abs(figures["after / before"] - 1) <= 0.02


def test_a_loaded_model_says_what_its_memory_is_for(tmp_path: Path) -> None:
    batch = load(make_tiny_llama(tmp_path / "model"), tmp_path, Engine(kv_budget_bytes=KV_BUDGET))
    memory = batch.memory()
    assert memory.kv_budget == KV_BUDGET
    assert batch.limits.kv_tokens == KV_BUDGET // 512 - 255
    assert memory.weights
    assert memory.active is not None
    assert memory.active >= memory.weights
    assert mx.set_cache_limit(1) == Engine().cache_limit_bytes
    batch.close()


def test_the_pool_goes_first_then_half_of_the_prefix_cache_then_all_that_nobody_reads(tmp_path: Path) -> None:
    batch = load(make_tiny_llama(tmp_path / "model"), tmp_path, Engine())
    for number in range(4):
        prompt = [(number + i) % 200 for i in range(300)]
        Run(batch, [[Command(0, Submit(f"r{number}", prompt, [], Sampling(seed=0), 5, []))]])
    kept = batch.memory().kv
    assert kept
    assert batch.reclaim(1) > 0
    assert (batch.memory().kv, batch.memory().cache) == (kept, 0)
    before = held()
    freed = batch.reclaim(2)
    left = batch.memory().kv
    assert left is not None
    assert 0 < left <= kept / 2
    assert freed == before - held() >= kept - left
    batch.reclaim(2)
    assert batch.memory().kv == 0
    Run(batch, [[Command(0, Submit("small", [1] * 300, [], Sampling(seed=0), 5, []))]])
    assert batch.memory().kv == 0, "it stays that small"
    assert batch.reclaim(0) == 0
    Run(batch, [[Command(0, Submit("again", [2] * 300, [], Sampling(seed=0), 5, []))]])
    assert batch.memory().kv
    batch.close()


def test_the_arrays_of_weights_and_cached_prefixes_are_counted(tmp_path: Path) -> None:
    batch = load(make_tiny_llama(tmp_path / "model"), tmp_path, Engine())
    weights = batch.memory().arrays
    assert weights
    for number in (1, 2):
        prompt = [(number + i) % 200 for i in range(300)]
        Run(batch, [[Command(0, Submit(f"r{number}", prompt, [], Sampling(seed=0), 5, []))]])
    counted = batch.memory().arrays
    assert counted is not None
    pieces, rest = divmod(counted - weights, 2 * layers_of(tmp_path / "model"))
    assert (pieces >= 2, rest) == (True, 0), "keys and values of each layer"
    batch.reclaim(2)
    batch.reclaim(2)
    assert batch.memory().arrays == weights
    assert batch.memory().arrays_limit is None, "only Metal has a limit"
    batch.close()


def layers_of(folder: Path) -> int:
    return int(json.loads((folder / "config.json").read_text())["num_hidden_layers"])
