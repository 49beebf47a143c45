"""Sampling on random logits: a token depends on its row's seed and position, and on nothing else in the batch."""

from __future__ import annotations

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.adjustments import Context
from stoker.engine.protocol import Sampling
from stoker.engine.sampling import Sampler, draw_key

VOCABULARY = 300


def logits(rows: int, seed: int = 0) -> mx.array:
    return 3 * mx.random.normal((rows, VOCABULARY), key=mx.random.key(seed))


def sample(rows: list[Sampling], scores: mx.array, positions: list[int]) -> list[int]:
    tokens: list[int] = Sampler(rows)(scores, positions, Context()).tokens.tolist()  # type: ignore[assignment]
    return tokens


def draws(sampling: Sampling, scores: mx.array, count: int) -> list[int]:
    """`count` tokens at successive positions from one [1, vocabulary] distribution."""
    sampler = Sampler([sampling])
    tokens: list[int] = [sampler(scores, [position], Context()).tokens.item() for position in range(count)]  # type: ignore[misc]
    return tokens


samplings = st.builds(
    Sampling,
    seed=st.integers(0, 2**63 - 1),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 1.7]),
    top_p=st.sampled_from([1.0, 0.9, 0.2]),
    top_k=st.sampled_from([0, 1, 5, 10_000]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(samplings, st.integers(0, 10_000)), min_size=2, max_size=8), st.integers(0, 1000))
def test_a_row_draws_the_same_token_alone_and_in_any_batch(rows: list[tuple[Sampling, int]], seed: int) -> None:
    scores = logits(len(rows), seed)
    together = sample([row for row, _ in rows], scores, [position for _, position in rows])
    alone = [sample([row], scores[i : i + 1], [position])[0] for i, (row, position) in enumerate(rows)]
    assert together == alone


def test_temperature_zero_is_the_likeliest_token() -> None:
    scores = logits(3)
    rows = [Sampling(seed=i, temperature=0) for i in range(3)]
    assert sample(rows, scores, [0, 1, 2]) == mx.argmax(scores, axis=-1).tolist()


def test_seeds_and_positions_change_the_draw() -> None:
    scores = logits(1)
    assert draws(Sampling(seed=1), scores, 50) != draws(Sampling(seed=2), scores, 50)
    assert len(set(draws(Sampling(seed=1), scores, 50))) > 5


def test_keys_of_neighbouring_positions_share_nothing() -> None:
    keys = {draw_key(seed, position) for seed in range(50) for position in range(50)}
    assert len(keys) == 2500
    assert len({high for high, _ in keys}) > 2490


def test_top_k_keeps_the_k_likeliest() -> None:
    scores = logits(1)
    best = set(mx.argsort(-scores[0])[:5].tolist())  # type: ignore[arg-type]
    assert set(draws(Sampling(seed=7, temperature=2.0, top_k=5), scores, 200)) == best


def test_top_p_keeps_the_smallest_set_that_holds_p() -> None:
    scores = mx.log(mx.array([[0.5, 0.3, 0.15, 0.05]]))
    assert set(draws(Sampling(seed=7, top_p=0.7), scores, 200)) == {0, 1}
    assert set(draws(Sampling(seed=7, top_p=0.81), scores, 200)) == {0, 1, 2}
    assert set(draws(Sampling(seed=7, top_p=0.01), scores, 50)) == {0}


def test_min_p_is_relative_to_the_likeliest() -> None:
    scores = mx.log(mx.array([[0.5, 0.3, 0.15, 0.05]]))
    assert set(draws(Sampling(seed=7, min_p=0.25), scores, 200)) == {0, 1, 2}


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_draws_follow_the_distribution(temperature: float) -> None:
    scores = mx.log(mx.array([[0.5, 0.3, 0.15, 0.05]]))
    expected: list[float] = mx.softmax(scores[0] / temperature).tolist()  # type: ignore[assignment]
    tokens = draws(Sampling(seed=3, temperature=temperature), scores, 3000)
    for token, probability in enumerate(expected):
        # Five standard deviations of a binomial share.
        assert abs(tokens.count(token) / 3000 - probability) < 5 * (probability * (1 - probability) / 3000) ** 0.5
