"""One soak run, or any other range: does it drift from its first quarter to its last?"""

from __future__ import annotations

from ..links import to_runbook
from ..panels import (
    BLUE,
    GREEN,
    GREY,
    RED,
    YELLOW,
    Absent,
    Board,
    Kind,
    Panel,
    Query,
    Row,
    Variable,
    figure,
    quantile,
    rate,
)

# While the chosen run asks; with all runs chosen always, since `.*` is also what a series without the label has.
DURING = '(max(stoker_soak_run_active{run=~"$run"}) == 1 or max(up{job="stoker-watchdog",run=~"$run"}))'
_EVERY_S = 10


def _of_run(expr: str) -> str:
    """Only the time of the run."""
    return f"({expr}) and on() {DURING}"


def _in_run(counter: str) -> str:
    """How many in the time of the run."""
    return f"{_EVERY_S} * sum_over_time(({_of_run(f'sum(rate({counter}[1m]))')})[$__range:{_EVERY_S}s])"


SOAK = Board(
    uid="stoker-soak",
    title="Stoker / Soak",
    about="A run of hours or days as one picture: choose it, or any time, and see whether anything drifts.",
    since="now-72h",
    variables=(Variable("run", "Run", "label_values(stoker_soak_run_active, run)", Absent.SOAK),),
    rows=(
        Row(
            "The run",
            (
                figure(
                    "Requests",
                    "How many were answered in the run.",
                    Query(_in_run("stoker_requests_total"), instant=True),
                    width=6,
                ),
                figure(
                    "Output tokens",
                    "How many were written in the run.",
                    Query(_in_run("stoker_generated_tokens_total"), instant=True),
                    unit="short",
                    width=6,
                ),
                figure(
                    "Failed",
                    "Answers with 5xx in the run. It passes with none.",
                    Query(_in_run('stoker_requests_total{code=~"5.."}'), instant=True),
                    steps=((None, GREEN), (0.5, RED)),
                    width=6,
                ),
                figure(
                    "Engine deaths",
                    "Deaths in the run; planned ones of a chaos plan count too.",
                    Query(_in_run("stoker_engine_restarts_total"), instant=True),
                    steps=((None, GREEN), (1, YELLOW)),
                    width=6,
                ),
                Panel(
                    "Gates",
                    "What the last run was judged by. A gate that cannot say yet is not there.",
                    "none",
                    (Query('min by (gate) (stoker_soak_verdict{run=~"$run"})', "{{gate}}", absent=Absent.SOAK),),
                    kind=Kind.STATES,
                    states=(("0", "failed", RED), ("1", "kept", GREEN)),
                    links=(to_runbook("StokerSoakFailed"),),
                ),
                Panel(
                    "Runs",
                    "When which run asked. A gap in one is time in which the machine or the tree was away.",
                    "none",
                    (Query('max by (run) (stoker_soak_run_active{run=~"$run"})', "{{run}}", absent=Absent.SOAK),),
                    kind=Kind.STATES,
                    states=(("0", "over", GREY), ("1", "runs", BLUE)),
                ),
            ),
        ),
        Row(
            "Does it drift?",
            (
                Panel(
                    "Time to first token, p95",
                    "Rising from the first quarter to the last is drift, if the load is the same.",
                    "s",
                    (
                        Query(
                            _of_run(quantile(0.95, "stoker_time_to_first_token_seconds")),
                            "p95",
                        ),
                    ),
                    steps=((None, GREEN), (5, YELLOW), (20, RED)),
                ),
                Panel(
                    "Time per token, p95",
                    "Rising with the same batch is a slow-down.",
                    "s",
                    (
                        Query(
                            _of_run(quantile(0.95, "stoker_time_per_output_token_seconds")),
                            "p95",
                        ),
                    ),
                    steps=((None, GREEN), (0.1, YELLOW), (0.3, RED)),
                ),
                Panel(
                    "Throughput",
                    "Output tokens a second of the whole server.",
                    "short",
                    (Query(_of_run(rate("stoker_generated_tokens_total")), "tokens/s"),),
                ),
                Panel(
                    "Memory",
                    "The footprint, and what MLX holds. A slope over days is a leak.",
                    "bytes",
                    (
                        Query(_of_run('stoker_engine_memory_bytes{kind="footprint"}'), "footprint"),
                        Query(_of_run('stoker_engine_memory_bytes{kind="active"}'), "active"),
                    ),
                ),
            ),
        ),
    ),
)
