"""Sampling: what was asked for, over what is recommended, over what the API assumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.service.sampling import NO_WISHES, Wishes, for_choice, recommended_by, sampling


def test_a_request_that_says_nothing_gets_the_apis_defaults_and_a_seed_of_its_own() -> None:
    chosen = sampling(NO_WISHES, NO_WISHES, None)
    assert (chosen.temperature, chosen.top_p, chosen.top_k, chosen.min_p) == (1.0, 1.0, 0, 0.0)
    assert (chosen.repetition_penalty, chosen.logit_bias, chosen.top_logprobs) == (1.0, {}, None)
    assert sampling(NO_WISHES, NO_WISHES, None).seed != chosen.seed


@pytest.mark.parametrize("seed", [0, 5, -1, -(2**63), 2**63 - 1])
def test_any_seed_of_the_api_is_one_for_the_engine(seed: int) -> None:
    assert 0 <= sampling(NO_WISHES, NO_WISHES, seed).seed < 2**63


def test_what_was_asked_for_wins_over_what_is_recommended_even_if_it_is_nothing() -> None:
    recommended = Wishes(temperature=0.6, top_p=0.95, top_k=20)
    chosen = sampling(Wishes(temperature=0.0, top_k=0), recommended, 1)
    assert (chosen.temperature, chosen.top_p, chosen.top_k) == (0.0, 0.95, 0)


def test_a_models_folder_says_what_its_makers_recommend(tmp_path: Path) -> None:
    assert recommended_by(tmp_path) == NO_WISHES
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"temperature": 0.7, "top_k": 20, "repetition_penalty": 1.05, "eos_token_id": 1}))
    assert recommended_by(tmp_path) == Wishes(temperature=0.7, top_k=20, repetition_penalty=1.05)
    path.write_text(json.dumps({"do_sample": False, "temperature": 0.7}))
    assert recommended_by(tmp_path).temperature == 0.0


def test_choices_have_seeds_of_their_own_and_the_same_each_time() -> None:
    first = sampling(NO_WISHES, NO_WISHES, 7)
    seeds = [for_choice(first, choice).seed for choice in range(5)]
    assert seeds[0] == first.seed
    assert len(set(seeds)) == 5
    assert seeds == [for_choice(first, choice).seed for choice in range(5)]
