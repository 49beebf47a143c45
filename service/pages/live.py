"""What the service knows at this moment, as the page shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from ..admission import unready
from ..context import Context
from ..engine_totals import EngineTotals
from ..metrics import PREFIX_CACHE_MISSES, PREFIX_CACHE_TOKENS
from . import requests
from .requests import FirstToken


class Problem(msgspec.Struct, frozen=True):
    """Why a request would not be answered right now."""

    code: str
    message: str


class Engine(msgspec.Struct, frozen=True):
    """From its last heartbeat. `memory` is by kind, in bytes, without what is not known."""

    memory: Mapping[str, int]
    cached_bytes: Mapping[str, int]


class Cache(msgspec.Struct, frozen=True):
    """The prefix cache since the service began: tokens by the tier they were found in, and misses by reason."""

    hit_tokens: Mapping[str, int]
    missed_tokens: int
    misses: Mapping[str, int]


class Live(msgspec.Struct, frozen=True):
    """One moment. Without a `problem`, requests are answered; `engine` is None while there is none."""

    at: float
    model: str
    problem: Problem | None
    running: int
    waiting: int
    suspended: int
    tokens_per_s: float
    first_token: FirstToken | None
    engine: Engine | None
    cache: Cache


def live(context: Context, engines: EngineTotals, tokens_per_s: float) -> Live:
    """Of now."""
    snapshot = context.ledger.snapshot()
    error = unready(context.conditions())
    heartbeat = snapshot.heartbeat
    return Live(
        at=time.time(),
        model=context.model_name,
        problem=None if error is None else Problem(error.code, str(error)),
        running=snapshot.running,
        waiting=snapshot.waiting + snapshot.queued,
        suspended=snapshot.suspended,
        tokens_per_s=round(tokens_per_s, 2),
        first_token=requests.first_token(context.traces.recent(requests.LISTED), time.monotonic()),
        engine=None
        if heartbeat is None
        else Engine(
            {kind: value for kind, value in msgspec.structs.asdict(heartbeat.memory).items() if value is not None},
            {tier.value: count for tier, count in heartbeat.prefix_cache.nbytes.items()},
        ),
        cache=cache(engines),
    )


def cache(engines: EngineTotals) -> Cache:
    """Over all engines that there were."""
    totals = engines.totals()
    tokens = totals.get(PREFIX_CACHE_TOKENS, {})
    return Cache(
        hit_tokens={tier: count for (outcome, tier), count in tokens.items() if outcome == "hit"},
        missed_tokens=sum(count for (outcome, _), count in tokens.items() if outcome == "miss"),
        misses={reason: count for (reason,), count in totals.get(PREFIX_CACHE_MISSES, {}).items() if count},
    )
