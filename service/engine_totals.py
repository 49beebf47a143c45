"""Counts of all engines that there were, from the heartbeats of each: they never go back when an engine is replaced.

Prometheus would take a fresh engine's count for a reset, and lose what the old one did since the last scrape; where
the fresh one is past the old count by the next scrape, it would not even see one. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from ..engine.protocol import Heartbeat
from .metrics import (
    ENGINE_STEPS,
    PREFIX_CACHE_EVICTIONS,
    PREFIX_CACHE_LOOKUPS,
    PREFIX_CACHE_MISSES,
    PREFIX_CACHE_TOKENS,
    SPECULATIVE_TOKENS,
    Reading,
)

NO_TIER = ""
"""Of tokens that were found in none."""

Labels = tuple[str, ...]


class EngineTotals:
    """One number a metric and label set. What an engine did after its last heartbeat is not known, nor counted."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._before: Counter[tuple[Reading, Labels]] = Counter()
        self._now: Counter[tuple[Reading, Labels]] = Counter()

    def observe(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat's counts in."""
        if heartbeat.epoch != self._epoch:
            self._epoch = heartbeat.epoch
            self._before.update(self._now)
        self._now = Counter(_counts(heartbeat))

    def totals(self) -> Mapping[Reading, Mapping[Labels, int]]:
        """All that was ever heard of."""
        found: defaultdict[Reading, dict[Labels, int]] = defaultdict(dict)
        for reading, labels in {**self._before, **self._now}:
            found[reading][labels] = self._before[reading, labels] + self._now[reading, labels]
        return found


def _counts(heartbeat: Heartbeat) -> dict[tuple[Reading, Labels], int]:
    cache = heartbeat.prefix_cache
    return {
        (ENGINE_STEPS, ()): heartbeat.steps,
        (PREFIX_CACHE_LOOKUPS, ()): cache.lookups,
        (PREFIX_CACHE_TOKENS, ("miss", NO_TIER)): cache.missed_tokens,
        **{(PREFIX_CACHE_TOKENS, ("hit", tier.value)): count for tier, count in cache.hit_tokens.items()},
        **{(PREFIX_CACHE_MISSES, (reason.value,)): count for reason, count in cache.misses.items()},
        **{(PREFIX_CACHE_EVICTIONS, (tier.value,)): count for tier, count in cache.evictions.items()},
        **{
            (SPECULATIVE_TOKENS, (method.value, "drafted")): drafts.drafted
            for method, drafts in heartbeat.drafts.items()
        },
        **{
            (SPECULATIVE_TOKENS, (method.value, "accepted")): drafts.accepted
            for method, drafts in heartbeat.drafts.items()
        },
    }
