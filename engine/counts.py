"""What the step thread counts over the engine's life, for its heartbeats: lookups in the prefix cache, and drafts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from .batch import Found, Sampled, TierSize
from .protocol import Decoding, DraftMethod, Drafts, MissReason, PrefixCacheUse, Tier


class Counts:
    """Filled by the loop; what it gives out is never changed afterwards, since another thread reads it."""

    def __init__(self) -> None:
        self._lookups = 0
        self._hit_tokens: Counter[Tier] = Counter()
        self._missed_tokens = 0
        self._misses: Counter[MissReason] = Counter()
        self._drafted: Counter[DraftMethod] = Counter()
        self._accepted: Counter[DraftMethod] = Counter()
        self.decoding = Decoding()
        self.generated_tokens = 0
        self.finished = 0

    def looked_up(self, tokens: int, found: Found) -> None:
        """A row with a sequence of so many tokens began with what was found."""
        self._lookups += 1
        self._hit_tokens[Tier.RAM] += found.tokens - found.from_disk
        self._hit_tokens[Tier.DISK] += found.from_disk
        self._missed_tokens += tokens - found.tokens
        if found.miss is not None:
            self._misses[found.miss] += 1

    def sampled(self, sampled: Sampled) -> None:
        """A step drew these tokens."""
        self.generated_tokens += len(sampled.tokens)
        if sampled.drafted:
            self._drafted[sampled.method] += sampled.drafted
            self._accepted[sampled.method] += sampled.accepted

    def decoded(self, seconds: float, rows: int, tokens: int, context_tokens: int) -> None:
        """A step without any prompt drew so many tokens for so many rows."""
        before = self.decoding
        self.decoding = Decoding(
            before.steps + 1, before.seconds + seconds, before.rows + rows, before.tokens + tokens, context_tokens
        )

    def prefix_cache(self, tiers: Mapping[Tier, TierSize]) -> PrefixCacheUse:
        """The cache's part of a heartbeat, with what `tiers` hold."""
        return PrefixCacheUse(
            lookups=self._lookups,
            hit_tokens={tier: self._hit_tokens[tier] for tier in tiers},
            missed_tokens=self._missed_tokens,
            misses=dict(self._misses),
            nbytes={tier: size.nbytes for tier, size in tiers.items()},
            evictions={tier: size.evictions for tier, size in tiers.items()},
        )

    def drafts(self) -> dict[DraftMethod, Drafts]:
        """By method, of those that drafted."""
        return {method: Drafts(count, self._accepted[method]) for method, count in self._drafted.items()}
