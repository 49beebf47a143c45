"""Makes each precision, serves it by Stoker for a while, asks what it costs, and removes it; one table of all."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...engine import conversion
from ...engine.conversion import Precision
from ...engine.models import check
from ...engine.progress import Progress
from ..bench.benching import Plan, lag_notes, plan_facts
from ..bench.estimate import Estimate, estimate, exact
from ..bench.figures import METRICS, Better, Seen
from ..bench.report import Report, Row, Table, metric_rows
from ..bench.sitting import sit, warm_up
from ..compare.entries import ENTRIES
from ..compare.running import running
from ..compare.stacks import Contender
from .advice import Tried, recommend
from .quality import Quality, qualities

READY_WITHIN_S = 600.0


@dataclass(slots=True)
class _Variant:
    name: str
    folder: Path
    seen: dict[int, list[Seen]] = field(default_factory=dict)
    """By number of streams."""

    def column(self, streams: int) -> dict[str, Estimate | None]:
        return {metric.key: estimate(metric.of(seen) for seen in self.seen[streams]) for metric in METRICS}


async def try_precisions(
    source: Path, wanted: Mapping[str, Precision], plan: Plan, progress: Progress, on_sitting: Callable[[str], None]
) -> Report:
    """`plan.steps` are the numbers of streams that each is measured with. Raises `SoakError`, `ModelError`."""
    with tempfile.TemporaryDirectory(prefix="stoker-precisions-") as made:
        variants = [_Variant(name, Path(made) / f"{source.name}-{name}") for name in wanted]
        for variant in variants:
            await asyncio.to_thread(conversion.convert, source, variant.folder, wanted[variant.name], progress)
        on_sitting("quality")
        quality = await qualities(source, [variant.folder for variant in variants])
        order = random.Random(plan.seed)
        for repeat in range(plan.repeats):
            for variant in order.sample(variants, len(variants)):
                on_sitting(f"{variant.name}, {repeat + 1} of {plan.repeats}")
                await _measure(variant, plan, repeat)
        sizes = [check(variant.folder).bytes for variant in variants]
    return _report(source, plan, variants, quality, sizes)


async def _measure(variant: _Variant, plan: Plan, repeat: int) -> None:
    contender = Contender(variant.name, ENTRIES["stoker"], str(variant.folder))
    async with running(contender, plan.steps[-1], READY_WITHIN_S) as server:
        await warm_up(server.target, plan.steps[-1])
        for streams in plan.steps:
            seen = await sit(server.target, plan.asked(streams, repeat), plan.seconds, server.watched)
            variant.seen.setdefault(streams, []).append(replace(seen, start_s=server.start_s))


def _report(source: Path, plan: Plan, variants: list[_Variant], quality: list[Quality], sizes: list[int]) -> Report:
    full = plan.steps[-1]
    columns = [variant.column(full) for variant in variants]
    tried = [
        Tried(variant.name, cost.divergence, _median(column["throughput"]), _median(column["memory"]))
        for variant, cost, column in zip(variants, quality, columns, strict=True)
    ]
    names = tuple(variant.name for variant in variants)
    tables = [Table("Quality and size", names, _quality_rows(quality, sizes))]
    for streams in plan.steps:
        rows = metric_rows([variant.column(streams) for variant in variants], judged=True)
        tables.append(Table(f"With {streams} stream{'s' if streams > 1 else ''}", names, rows))
    seen = [each for variant in variants for sittings in variant.seen.values() for each in sittings]
    return Report(
        f"{source.name} in {len(names)} precisions",
        (("model", str(source)), *plan_facts(plan)),
        tuple(tables),
        (recommend(tried)[1], *lag_notes(seen)),
    )


def _median(found: Estimate | None) -> float | None:
    return None if found is None else found.median


def _quality_rows(quality: list[Quality], sizes: list[int]) -> tuple[Row, ...]:
    def cells(values: list[float]) -> tuple[Estimate | None, ...]:
        return tuple(exact(value) for value in values)

    rows: list[tuple[Row, Better]] = [
        (Row("perplexity", "perplexity", "plain", "on a small text of prose, talk, sums and code",
             cells([each.perplexity for each in quality])), "lower"),
        (Row("divergence", "KL divergence", "nats", "mean over the text, from the model as it was given",
             cells([each.divergence for each in quality])), "lower"),
        (Row("agreement", "same likeliest token", "share", "of all positions of the text",
             cells([each.agreement for each in quality])), "higher"),
        (Row("size", "size of the weights", "bytes", "on disk", cells([float(size) for size in sizes])), "lower"),
    ]  # fmt: skip
    return tuple(row.judged(better) for row, better in rows)
