"""Memory and caches: what holds memory, whether it leaks, and what the caches save."""

from __future__ import annotations

from ..links import to_runbook
from ..panels import BLUE, GREEN, RED, YELLOW, Absent, Board, Panel, Query, Row, figure, over_range, rate

HOUR = 3600
DAY = 24 * HOUR
KINDS = "stoker_engine_memory_bytes"
OTHER = f'{KINDS}{{kind="active"}} - ignoring(kind) {KINDS}{{kind="weights"}} - ignoring(kind) {KINDS}{{kind="kv"}}'

DRAFTS, ACCEPTED, DRAFTED = "stoker_speculative_tokens_total", '{outcome="accepted"}', '{outcome="drafted"}'

MEMORY = Board(
    uid="stoker-memory",
    title="Stoker / Memory and caches",
    about="What holds memory, whether it grows without reason and when it would run out, and what the caches save.",
    since="now-24h",
    rows=(
        Row(
            "Memory",
            (
                Panel(
                    "What MLX holds",
                    "Weights are constant and KV follows the load; what is neither must not grow for hours.",
                    "bytes",
                    (
                        Query(f'{KINDS}{{kind="weights"}}', "weights"),
                        Query(f'{KINDS}{{kind="kv"}}', "KV"),
                        Query(OTHER, "other"),
                        Query(f'{KINDS}{{kind="cache"}}', "freed buffers"),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Against the limit",
                    "The footprint is what the system charges. Near the limit load is shed.",
                    "bytes",
                    (
                        Query(f'{KINDS}{{kind="footprint"}}', "footprint"),
                        Query(f'{KINDS}{{kind="active"}} + ignoring(kind) {KINDS}{{kind="cache"}}', "active and freed"),
                        Query(f'{KINDS}{{kind="limit"}}', "limit", absent=Absent.LIMIT),
                    ),
                ),
                Panel(
                    "Leak",
                    "Growth an hour of memory that is neither weights nor KV. A lower bound above 0 is a leak.",
                    "bytes",
                    (
                        Query("stoker_leak_slope_bytes_per_hour", "slope", absent=Absent.LEAK),
                        Query("stoker_leak_slope_lower_bound_bytes_per_hour", "at least", absent=Absent.LEAK),
                    ),
                    width=8,
                    least=None,
                    links=(to_runbook("StokerLeak"),),
                ),
                figure(
                    "Memory lasts for",
                    "Until memory runs out at that rate. Below a day a planned restart comes before the night.",
                    Query("min(stoker_memory_exhaustion_seconds)", instant=True, absent=Absent.LEAK),
                    unit="s",
                    steps=((None, RED), (DAY, YELLOW), (3 * DAY, GREEN)),
                    width=8,
                    height=8,
                ),
                Panel(
                    "Fragmentation",
                    "Memory held over memory used. Above 2 a large pool is cleared, which costs no restart.",
                    "none",
                    (Query("stoker_fragmentation_ratio", "held over used", absent=Absent.LEAK),),
                    width=8,
                    steps=((None, GREEN), (1.5, YELLOW), (2, RED)),
                    links=(to_runbook("StokerFragmentation"),),
                ),
                Panel(
                    "Swapping",
                    "Bytes a second to and from swap. Any lasting rate makes every token wait for the disk.",
                    "Bps",
                    (
                        Query("rate(stoker_swap_in_bytes_total[$__rate_interval])", "in"),
                        Query("rate(stoker_swap_out_bytes_total[$__rate_interval])", "out"),
                    ),
                    steps=((None, GREEN), (1e6, YELLOW), (1e8, RED)),
                    links=(to_runbook("StokerSwapGrowing"),),
                ),
                Panel(
                    "KV budget in use",
                    "KV of running requests. A plateau with requests waiting is the budget's bound.",
                    "bytes",
                    (Query(f'{KINDS}{{kind="kv"}}', "KV"),),
                ),
            ),
        ),
        Row(
            "Prefix cache",
            (
                Panel(
                    "Hit rate",
                    "Share of prompt tokens whose KV was found. Agents should be above 80 %.",
                    "percentunit",
                    (
                        Query(
                            'sum by (tier) (rate(stoker_prefix_cache_tokens_total{outcome="hit"}[$__rate_interval])) / '
                            "ignoring(tier) group_left sum(rate(stoker_prefix_cache_tokens_total[$__rate_interval]))",
                            "{{tier}}",
                        ),
                    ),
                    stacked=True,
                    most=1,
                ),
                Panel(
                    "Misses by reason",
                    "`diverged`: prompts change at their beginning. `evicted`: the cache is too small.",
                    "none",
                    (Query(rate("stoker_prefix_cache_misses_total", "reason"), "{{reason}}"),),
                    stacked=True,
                ),
                Panel(
                    "Held",
                    "KV in each tier. A tier at its bound evicts what is used least.",
                    "bytes",
                    (Query("sum by (tier) (stoker_prefix_cache_bytes)", "{{tier}}"),),
                    width=8,
                ),
                Panel(
                    "Evictions",
                    "Blocks a second that made room for others. Many with `evicted` misses: raise the bound.",
                    "none",
                    (Query(rate("stoker_prefix_cache_evictions_total", "tier"), "{{tier}}", absent=Absent.SHED),),
                    width=8,
                ),
                Panel(
                    "Lookups",
                    "One for each prompt that reaches the engine; none while requests run means that the cache is off.",
                    "reqps",
                    (Query(rate("stoker_prefix_cache_lookups_total"), "lookups"),),
                    width=8,
                ),
            ),
        ),
        Row(
            "Speculation",
            (
                Panel(
                    "Drafted and accepted",
                    "Tokens a second. Accepted ones are gained; drafting that is not accepted switches itself off.",
                    "none",
                    (
                        Query(
                            rate("stoker_speculative_tokens_total", "method, outcome"),
                            "{{method}} {{outcome}}",
                            absent=Absent.DRAFTS,
                        ),
                    ),
                ),
                Panel(
                    "Acceptance",
                    "Share of drafted tokens that were right. Low and still drafting would cost time.",
                    "percentunit",
                    (
                        Query(
                            f"{rate(DRAFTS, 'method', ACCEPTED)} / {rate(DRAFTS, 'method', DRAFTED)}",
                            "{{method}}",
                            absent=Absent.DRAFTS,
                        ),
                    ),
                    most=1,
                    steps=((None, RED), (0.3, YELLOW), (0.6, GREEN)),
                ),
                figure(
                    "Drafts in this range",
                    "How much speculation did at all.",
                    Query(
                        over_range("stoker_speculative_tokens_total", "outcome"),
                        "{{outcome}}",
                        absent=Absent.DRAFTS,
                    ),
                    steps=((None, BLUE),),
                    width=24,
                    height=4,
                ),
            ),
        ),
    ),
)
