"""Requests: what users feel, and where the time of their requests goes."""

from __future__ import annotations

from ...service.telemetry import LATENCY_E2E, LATENCY_FIRST_TOKEN, LATENCY_QUEUE, RESUME
from ..links import to_board, to_longer, to_runbook, to_slower
from ..panels import (
    BLUE,
    GREEN,
    RED,
    YELLOW,
    Absent,
    Board,
    Panel,
    Query,
    Row,
    Variable,
    figure,
    heatmap,
    latency,
    over_range,
    rate,
)

CHOSEN = '{model=~"$model",endpoint=~"/v1/.*"}'

REQUESTS = Board(
    uid="stoker-requests",
    title="Stoker / Requests",
    about="What users feel: time to the first token, time per token, throughput, and what was turned away or resumed.",
    variables=(Variable("model", "Model", "label_values(stoker_requests_total, model)"),),
    rows=(
        Row(
            "Now",
            (
                Panel(
                    "Running and waiting",
                    "Waiting above 0 for long means that more is asked than this machine does.",
                    "none",
                    (
                        Query("sum(stoker_requests_running)", "running"),
                        Query("sum(stoker_requests_waiting)", "waiting"),
                    ),
                    width=8,
                ),
                Panel(
                    "Output",
                    "Tokens a second of the whole server. A fall while requests run is a slow-down: see Host.",
                    "short",
                    (Query(rate("stoker_generated_tokens_total"), "tokens/s"),),
                    width=8,
                ),
                Panel(
                    "Requests",
                    "By endpoint. A stop without an incident is a client's.",
                    "reqps",
                    (Query(rate("stoker_requests_total", "endpoint", CHOSEN), "{{endpoint}}"),),
                    width=8,
                    stacked=True,
                ),
            ),
        ),
        Row(
            "What users feel",
            (
                latency(
                    "Time to first token",
                    "Above 10 s people think that nothing happens. See whether queue or prefill makes it.",
                    "stoker_time_to_first_token_seconds",
                    5,
                    20,
                    links=(to_board("stoker-memory", "Does the prefix cache help?"),),
                    behind=to_slower(LATENCY_FIRST_TOKEN),
                ),
                heatmap(
                    "Time to first token, spread",
                    "Two bands are two kinds of request: hits and misses of the prefix cache, usually.",
                    "stoker_time_to_first_token_seconds",
                ),
                latency(
                    "Time per output token",
                    "Above 0.1 s it is slower than people read. It grows with the batch and with context.",
                    "stoker_time_per_output_token_seconds",
                    0.1,
                    0.3,
                    links=(to_board("stoker-host", "Is it the machine?"),),
                ),
                heatmap(
                    "Between tokens, spread",
                    "A thin band far above the others are pauses: a prefill beside, or an engine's death.",
                    "stoker_inter_token_latency_seconds",
                ),
                latency(
                    "Whole requests",
                    "From arrival to end. Long by itself is not bad: long answers take long.",
                    "stoker_request_duration_seconds",
                    120,
                    600,
                    behind=to_slower(LATENCY_E2E),
                ),
                latency(
                    "Queue",
                    "Time before the engine begins. Above a second, more is asked than fits the batch.",
                    "stoker_queue_seconds",
                    1,
                    10,
                    behind=to_slower(LATENCY_QUEUE),
                ),
            ),
        ),
        Row(
            "Where the time goes",
            (
                Panel(
                    "Prefill against decode",
                    "Seconds of requests a second. Prefill that outgrows decode wants a better prefix cache.",
                    "none",
                    (
                        Query(rate("stoker_queue_seconds_sum"), "queue"),
                        Query(rate("stoker_prefill_seconds_sum"), "prefill"),
                        Query(rate("stoker_decode_seconds_sum"), "decode"),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Prompt tokens by source",
                    "Computed ones cost time; those from RAM or disk do not.",
                    "short",
                    (Query(rate("stoker_prompt_tokens_total", "source"), "{{source}}"),),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "What did not go well",
            (
                figure(
                    "Turned away",
                    "Requests refused at the door, by why. Lasting refusals want another machine or a smaller model.",
                    Query(
                        over_range("stoker_requests_shed_total", "reason") + " > 0", "{{reason}}", absent=Absent.SHED
                    ),
                    steps=((None, YELLOW),),
                    width=8,
                    height=5,
                    links=(to_runbook("StokerSheddingForLong"),),
                ),
                figure(
                    "Left by their clients",
                    "Clients that gave up. Many of them with a long time to first token belong together.",
                    Query(over_range("stoker_requests_cancelled_total"), "cancelled", instant=True),
                    steps=((None, BLUE),),
                    width=8,
                    height=5,
                ),
                figure(
                    "Spans that were dropped",
                    "Traces that the collector never got. Serving does not suffer from it.",
                    Query(over_range("stoker_spans_dropped_total"), "spans", instant=True),
                    steps=((None, GREEN), (1, RED)),
                    width=8,
                    height=5,
                ),
                latency(
                    "Pause of resumed requests",
                    "From an engine's death to the next token. It is start, load and what no block held.",
                    "stoker_resume_gap_seconds",
                    10,
                    60,
                    absent=Absent.RESUMES,
                    width=24,
                    links=(to_runbook("StokerEngineDown"),),
                    behind=to_longer(RESUME),
                ),
            ),
        ),
    ),
)
