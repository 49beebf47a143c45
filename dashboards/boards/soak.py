"""One soak run, or any other range: does it drift from its first quarter to its last?"""

from __future__ import annotations

from ..panels import GREEN, RED, YELLOW, Board, Panel, Query, Row, figure, over_range, quantile, rate

SOAK = Board(
    uid="stoker-soak",
    title="Stoker / Soak",
    about="A run of hours or days as one picture: choose its time range, and see whether anything drifts.",
    since="now-72h",
    rows=(
        Row(
            "The run",
            (
                figure(
                    "Requests",
                    "How many were answered in this range.",
                    Query(over_range("stoker_requests_total"), instant=True),
                    width=6,
                ),
                figure(
                    "Output tokens",
                    "How many were written in this range.",
                    Query(over_range("stoker_generated_tokens_total"), instant=True),
                    unit="short",
                    width=6,
                ),
                figure(
                    "Failed",
                    "Answers with 5xx in this range. A soak run passes with none.",
                    Query('sum(increase(stoker_requests_total{code=~"5.."}[$__range])) or vector(0)', instant=True),
                    steps=((None, GREEN), (0.5, RED)),
                    width=6,
                ),
                figure(
                    "Engine deaths",
                    "Deaths in this range; planned ones of a chaos plan count too.",
                    Query(over_range("stoker_engine_restarts_total"), instant=True),
                    steps=((None, GREEN), (1, YELLOW)),
                    width=6,
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
                            quantile(0.95, "stoker_time_to_first_token_seconds"),
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
                            quantile(0.95, "stoker_time_per_output_token_seconds"),
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
