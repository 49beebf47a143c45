"""`stoker bench`: one endpoint's figures, or those of one model in several precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...watchdog.commands.options import AsJson, Key
from .reporting import Files, check_files, deliver, progress, run

if TYPE_CHECKING:
    from ..bench.benching import Plan
    from ..bench.report import Report

Scale = Annotated[float, typer.Option(min=0.001, help="Of its lengths; less than 1 for slow machines.")]
Seed = Annotated[int, typer.Option(help="Of what is asked: the same seed is the same texts.")]
Sitting = Annotated[float, typer.Option(min=1, help="How long to measure each number of streams.")]
Repeats = Annotated[int, typer.Option(min=1, help="How often to measure everything.")]
WorkloadName = Annotated[
    str, typer.Option(help="chat, agent, long-context, echo, burst, mixed, or a trace's JSONL file.")
]


def bench(
    target: Annotated[str, typer.Argument(help="The endpoint's URL, without /v1; with --precisions, a model.")],
    *,
    precisions: Annotated[
        str | None, typer.Option(help="Compare a model's own precisions instead: f32, bf16, f16, 8, 4, mixed.")
    ] = None,
    workload: WorkloadName = "chat",
    scale: Scale = 1.0,
    streams: Annotated[int, typer.Option(min=1, help="The most streams at once; the sweep ends when it is full.")] = 32,
    seconds: Sitting = 30.0,
    repeats: Repeats = 3,
    seed: Seed = 1,
    api: Annotated[Literal["openai", "anthropic"], typer.Option(help="Which API to speak.")] = "openai",
    model: Annotated[str | None, typer.Option(help="Default: the first that it lists.")] = None,
    key: Key = None,
    pid: Annotated[int | None, typer.Option(help="Of the server: its memory is measured, and its children's.")] = None,
    metrics: Annotated[
        list[str] | None, typer.Option(help="Where it says memory and engine restarts; default: its /metrics.")
    ] = None,
    report: Files = None,
    as_json: AsJson = False,
) -> None:
    """Measure an endpoint from outside: the standard metrics by number of streams, until it is full."""
    from ..bench.benching import Plan
    from ..bench.benching import bench as measure
    from ..bench.sitting import Watched, served_model
    from ..bench.sweep import doubling
    from ..target import Target

    check_files(report)
    if precisions is not None:
        plan = Plan(workload, scale, seed, seconds, repeats, (1, streams) if streams > 1 else (1,))
        deliver(_precisions(target, precisions, plan), report, as_json)
        return
    url = target.rstrip("/").removesuffix("/v1")
    plan = Plan(workload, scale, seed, seconds, repeats, doubling(streams))
    watched = Watched(pid=lambda: pid, metrics_urls=tuple(metrics or [f"{url}/metrics"]))
    with progress(len(plan.steps) * repeats, seconds) as begins:

        async def measured() -> Report:
            asked = Target(url, model or await served_model(url, key), api, key=key)
            return await measure(
                asked, plan, watched, lambda count, repeat: begins(f"{count} streams, {repeat + 1} of {repeats}")
            )

        made = run(measured())
    deliver(made, report, as_json)


def _precisions(model: str, listed: str, plan: Plan) -> Report:
    from rich.console import Console

    from ...config import Paths
    from ...engine import models
    from ...engine.progress import progress_on
    from ..precisions.trying import try_precisions
    from ..precisions.variants import precisions

    wanted = precisions(listed)
    converting = progress_on(Console(stderr=True))
    source = models.ensure(model, Paths.from_environment().models, converting)
    with progress(len(wanted) * plan.repeats + 1, plan.seconds * len(plan.steps)) as begins:
        return run(try_precisions(source, wanted, plan, converting, begins))
