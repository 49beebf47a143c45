"""The host beside the speed of decoding: what slows a machine down shows in tokens a second."""

from __future__ import annotations

from ..links import to_runbook
from ..panels import GREEN, GREY, RED, YELLOW, Absent, Board, Kind, Panel, Query, Row, rate

SPEED = f"{rate('stoker_generated_tokens_total')} / clamp_min(sum(stoker_engine_batch_size), 1)"

# An idle engine steps not, and that is no fault.
LAST_STEP_AGE = "max(stoker_engine_last_step_age_seconds and on() (sum(stoker_requests_running) > 0)) or vector(0)"
_THERMAL = (
    ("0", "nominal", GREEN),
    ("1", "moderate", YELLOW),
    ("2", "heavy", RED),
    ("3", "trapping", RED),
    ("4", "sleeping", GREY),
)

HOST = Board(
    uid="stoker-host",
    title="Stoker / Host",
    about="Heat, clocks, pressure and swap of the machine, beside what they do to decoding.",
    since="now-24h",
    rows=(
        Row(
            "Speed",
            (
                Panel(
                    "Decode speed of a row",
                    "Tokens a second of one running request. Falling with the same batch, it is the machine.",
                    "short",
                    (Query(SPEED, "tokens/s a row"),),
                ),
                Panel(
                    "Slow-down",
                    "Usual decode speed over the present one, at the same batch and context. 2 is half as fast.",
                    "none",
                    (Query("stoker_decode_slowdown_ratio", "usual over present", absent=Absent.SLOWDOWN),),
                    steps=((None, GREEN), (1.3, YELLOW), (2, RED)),
                    links=(to_runbook("StokerThrottled"),),
                ),
                Panel(
                    "Batch",
                    "Rows that decode together; more rows are slower each and faster in all.",
                    "none",
                    (Query("sum(stoker_engine_batch_size)", "rows"),),
                ),
                Panel(
                    "Age of the last step",
                    "With work pending it stays below a second or two. The watchdog replaces an engine that hangs.",
                    "s",
                    (
                        Query(
                            LAST_STEP_AGE,
                            "age",
                        ),
                    ),
                    steps=((None, GREEN), (5, YELLOW), (10, RED)),
                    links=(to_runbook("StokerStalled"),),
                ),
            ),
        ),
        Row(
            "Heat",
            (
                Panel(
                    "Thermal level",
                    "From heavy on the machine slows itself down; load is shed, since no restart would help.",
                    "none",
                    (Query("max(stoker_thermal_level)", "level", absent=Absent.THERMAL),),
                    kind=Kind.STATES,
                    width=24,
                    height=5,
                    states=_THERMAL,
                    links=(to_runbook("StokerThrottled"),),
                ),
                Panel(
                    "Clock",
                    "Present clock over the highest. Low under load is heat, a battery or a governor.",
                    "percentunit",
                    (Query("stoker_cpu_frequency_ratio", "clock", absent=Absent.CLOCK),),
                    most=1,
                    steps=((None, RED), (0.6, YELLOW), (0.8, GREEN)),
                ),
                Panel(
                    "Memory pressure",
                    "macOS' own word: 2 is a warning, 4 is critical and ends programs.",
                    "none",
                    (Query("stoker_memory_pressure_level", "level", absent=Absent.PRESSURE),),
                    steps=((None, GREEN), (2, YELLOW), (4, RED)),
                ),
            ),
        ),
        Row(
            "Swap",
            (
                Panel(
                    "Swap in use",
                    "Growing for hours, something needs more memory than there is: see `stoker incidents`.",
                    "bytes",
                    (Query("stoker_swap_used_bytes", "used"),),
                    links=(to_runbook("StokerSwapGrowing"),),
                ),
                Panel(
                    "Detectors that fire",
                    "What the watchdog is sure of. Each has an incident with its numbers.",
                    "none",
                    (Query("max by (detector) (stoker_detector_firing)", "{{detector}}"),),
                    kind=Kind.STATES,
                    states=(("0", "well", GREEN), ("1", "fires", RED)),
                ),
            ),
        ),
    ),
)
