"""A model is loaded as its settings say, or refused with the setting that does not fit it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config import Engine
from stoker.engine.errors import ModelError
from stoker.engine.loading import load_batch
from stoker.engine.protocol import Sampling, Submit
from tests.tiny_models import make_tiny_llama

from .processes import settings_of
from .test_mlx_batch import outputs, prompt_of


@pytest.mark.parametrize("engine", [Engine(kv_bits=8), Engine(prefix_cache_bits=8)], ids=["rows", "prefix cache"])
def test_heads_that_the_group_size_does_not_divide_are_refused_by_the_name_of_the_setting(
    tmp_path: Path, engine: Engine
) -> None:
    folder = make_tiny_llama(tmp_path / "model")
    with pytest.raises(ModelError, match=r"`engine.*bits` = 8 cannot work .* 16 wide.*engine.kv_group_size"):
        load_batch(settings_of(tmp_path, engine, folder))


def test_quantized_kv_gives_room_for_more_tokens(tmp_path: Path) -> None:
    folder = make_tiny_llama(tmp_path / "model", hidden=256)
    budget = 1 << 22
    batches = [
        load_batch(settings_of(tmp_path, Engine(kv_bits=bits, kv_budget_bytes=budget), folder)) for bits in (None, 8)
    ]
    plain, quantized = (batch.limits.kv_tokens for batch in batches)
    assert plain is not None
    assert quantized is not None
    assert quantized > 3 * plain
    for batch in batches:
        assert len(outputs(batch, [Submit("r", prompt_of(1, 20), [], Sampling(seed=3), 20, [])])["r"]) == 20
        batch.close()
