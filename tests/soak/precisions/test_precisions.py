"""A model's precisions: named, made, measured for speed, memory and quality, and one of them recommended."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from stoker.engine.progress import LineProgress
from stoker.soak.bench.benching import Plan
from stoker.soak.errors import QualityUnknown, UnknownPrecision
from stoker.soak.precisions.advice import Tried, recommend
from stoker.soak.precisions.quality import qualities
from stoker.soak.precisions.trying import try_precisions
from stoker.soak.precisions.variants import precisions
from tests.tiny_models import make_tiny_llama


def test_the_fastest_of_the_good_ones_is_recommended() -> None:
    name, why = recommend([Tried("f32", 0.0, 10, 4e9), Tried("8", 0.01, 20, 2e9), Tried("4", 0.5, 40, 1e9)])
    assert name == "8"
    assert "the fastest here" in why
    assert "4 lose more than 0.1 nats" in why


def test_among_equally_fast_ones_memory_decides() -> None:
    assert recommend([Tried("f32", 0.0, 20, 4e9), Tried("8", 0.01, 19.5, 2e9)])[0] == "8"


def test_if_none_is_good_the_least_bad_one_is_taken() -> None:
    assert recommend([Tried("4", 0.9, 40, 1e9), Tried("mixed", 0.4, 30, 2e9)])[0] == "mixed"


def test_a_precision_nobody_knows_is_named_with_those_there_are() -> None:
    assert list(precisions("f32, 8,4")) == ["f32", "8", "4"]
    with pytest.raises(UnknownPrecision, match="f32, bf16"):
        precisions("f32,3")


@pytest.mark.timeout(180)
async def test_what_is_not_quantized_costs_nothing_and_four_bits_cost_something(tmp_path: Path) -> None:
    model = make_tiny_llama(tmp_path / "model")
    plan = Plan(scale=0.02, seconds=0.3, repeats=1, steps=(1,))
    quiet = LineProgress(Console(file=StringIO()))
    report = await try_precisions(model, precisions("f32,4"), plan, quiet, lambda _: None)
    quality, speed = report.tables
    assert quality.columns == speed.columns == ("f32", "4")
    rows = {row.key: [cell.median for cell in row.cells if cell is not None] for row in quality.rows}
    assert rows["divergence"][0] == pytest.approx(0, abs=1e-6)
    assert rows["divergence"][1] > 0.001
    assert rows["agreement"][0] == 1.0 > rows["agreement"][1]
    assert rows["size"] == sorted(rows["size"], reverse=True)
    shown = {row.key: row.cells for row in speed.rows}
    assert all(cell is not None and cell.median > 0 for cell in (*shown["ttft_p50"], *shown["memory"]))
    assert report.notes[0].startswith("Take ")


async def test_a_folder_that_is_no_model_is_refused_with_the_childs_last_words(tmp_path: Path) -> None:
    with pytest.raises(QualityUnknown, match="was not measured"):
        await qualities(tmp_path, [tmp_path])
