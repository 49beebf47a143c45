"""One soak run, or any other range: does it drift from its first quarter to its last?"""

from __future__ import annotations

from ..panels import GREEN, RED, YELLOW, Board, Kind, Panel, Query, Row, over_range, rate

SOAK = Board(
    uid="stoker-soak",
    title="Stoker / Soak",
    about="A run of hours or days as one picture: choose its time range, and see whether anything drifts.",
    since="now-72h",
    rows=(
        Row(
            "The run",
            (
                Panel(
                    "Requests",
                    "How many were answered in this range.",
                    "none",
                    (Query(over_range("stoker_requests_total"), instant=True),),
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                ),
                Panel(
                    "Output tokens",
                    "How many were written in this range.",
                    "short",
                    (Query(over_range("stoker_generated_tokens_total"), instant=True),),
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                ),
                Panel(
                    "Failed",
                    "Answers with 5xx in this range. A soak run passes with none.",
                    "none",
                    (Query('sum(increase(stoker_requests_total{code=~"5.."}[$__range])) or vector(0)', instant=True),),
                    kind=Kind.STAT,
                    steps=((None, GREEN), (0.5, RED)),
                    width=6,
                    height=5,
                ),
                Panel(
                    "Engine deaths",
                    "Deaths in this range; planned ones of a chaos plan count too.",
                    "none",
                    (Query(over_range("stoker_engine_restarts_total"), instant=True),),
                    kind=Kind.STAT,
                    steps=((None, GREEN), (1, YELLOW)),
                    width=6,
                    height=5,
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
                            f"histogram_quantile(0.95, {rate('stoker_time_to_first_token_seconds_bucket', 'le')})",
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
                            f"histogram_quantile(0.95, {rate('stoker_time_per_output_token_seconds_bucket', 'le')})",
                            "p95",
                        ),
                    ),
                    steps=((None, GREEN), (0.1, YELLOW), (0.3, RED)),
                ),
                Panel(
                    "Throughput",
                    "Output tokens a second of the whole server.",
                    "short",
                    (Query(rate("stoker_generated_tokens_total"), "tokens/s"),),
                ),
                Panel(
                    "Memory",
                    "The footprint, and what MLX holds. A slope over days is a leak.",
                    "bytes",
                    (
                        Query('stoker_engine_memory_bytes{kind="footprint"}', "footprint"),
                        Query('stoker_engine_memory_bytes{kind="active"}', "active"),
                    ),
                ),
            ),
        ),
    ),
)
