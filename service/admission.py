"""Whether a request is taken, and how many tokens it may write. Pure: every fact is passed in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from ..config import Server
from ..engine.protocol import Limits, Priority
from .allowance import UNBOUNDED, Allowance
from .errors import (
    ContextLengthExceeded,
    EngineLoading,
    EngineUnavailable,
    Excess,
    Overloaded,
    QueueFull,
    ServiceError,
    ShuttingDown,
    TokensSpent,
    TooManyAtOnce,
)


class ShedLevel(IntEnum):
    """What is turned away for want of memory or of an engine; each level includes those before it."""

    NONE = 0
    BATCH_AND_LONG = 1
    OVER_SHARE = 2
    ALL = 3


@dataclass(frozen=True)
class Shed:
    """The level, and why; the watchdog sets it."""

    level: ShedLevel
    reason: str


@dataclass(frozen=True)
class Conditions:
    """The state of the service at the moment a request arrives.

    `engine_rows` is how many requests an engine computes at once, None as long as there has never been one;
    `engine_down_s` is how long it has been gone, None while it is there. `in_flight` counts requests taken so far,
    `clients` those they are from. `retry_after_s` is when one more would have its turn, None when nobody knows.
    """

    stopping: bool
    text_ready: bool
    shed: Shed
    engine_rows: int | None
    engine_down_s: float | None
    in_flight: int
    clients: int
    waiting_tokens: int
    retry_after_s: int | None


@dataclass(frozen=True)
class Window:
    """How many tokens a request may have, prompt and output together, and `bound`: what sets that bound."""

    tokens: int
    bound: str = "the model's window is"

    @classmethod
    def of(cls, limits: Limits, configured: int | None) -> Window:
        """The narrowest of the model's, the configuration's and what the engine's memory for KV holds."""
        tokens = min(limits.context_tokens, configured or limits.context_tokens)
        if limits.kv_tokens is not None and limits.kv_tokens < tokens:
            return cls(limits.kv_tokens, "the engine's memory for KV holds")
        return cls(tokens)


@dataclass(frozen=True)
class Arrival:
    """A request at the door: `in_flight` is how many its client has already, and whether it is among `clients`;
    `wait_s` is how long it has to wait for tokens of its allowance."""

    priority: Priority
    in_flight: int
    allowance: Allowance = UNBOUNDED
    wait_s: float = 0.0


def unready(conditions: Conditions) -> ServiceError | None:
    """Why the service cannot work at this very moment, or None when it can."""
    if conditions.stopping:
        return ShuttingDown("the server is shutting down; try again when it is back")
    if not conditions.text_ready or conditions.engine_rows is None:
        return EngineLoading("the model is still loading; try again in a moment")
    if conditions.engine_down_s is not None:
        gone = f"the engine has been gone for {conditions.engine_down_s:.1f} s and is being restarted"
        return EngineUnavailable(f"{gone}; try again in a moment")
    if conditions.shed.level >= ShedLevel.ALL:
        return _overloaded(conditions, "all new requests are")
    return None


def refusal(conditions: Conditions, arrival: Arrival, server: Server) -> ServiceError | None:
    """Why a request that arrives now is not taken, or None when it is.

    A request that arrives while the engine restarts is taken: it waits as those wait that were there before.
    """
    reason = unready(conditions)
    down_s = conditions.engine_down_s or 0.0
    if reason is not None and not (isinstance(reason, EngineUnavailable) and down_s < server.resume_deadline_s):
        return reason
    return _beyond_allowance(arrival) or _shed(conditions, arrival) or _queue_full(conditions, server)


def _beyond_allowance(arrival: Arrival) -> TooManyAtOnce | TokensSpent | None:
    most, per_minute = arrival.allowance.requests, arrival.allowance.tokens_per_minute
    if most is not None and arrival.in_flight >= most:
        return TooManyAtOnce(f"this key may have {most} requests in flight at once, each of `n` counted; wait for one")
    if arrival.wait_s > 0:
        told = f"this key may use {per_minute} tokens a minute, and they are used up; try again later"
        return TokensSpent(told, retry_after_s=math.ceil(arrival.wait_s))
    return None


def _shed(conditions: Conditions, arrival: Arrival) -> Overloaded | None:
    level = conditions.shed.level
    if level >= ShedLevel.ALL:
        return _overloaded(conditions, "all new requests are")
    if level >= ShedLevel.OVER_SHARE and _over_share(conditions, arrival):
        return _overloaded(conditions, "clients with more than their share in flight are")
    if level >= ShedLevel.BATCH_AND_LONG and arrival.priority is Priority.BATCH:
        return _overloaded(conditions, "batch requests are")
    return None


def _over_share(conditions: Conditions, arrival: Arrival) -> bool:
    """Whether its client has as many in flight as each would have if the engine's rows were shared out."""
    assert conditions.engine_rows is not None, "not loading, so an engine has been there"
    clients = conditions.clients + (arrival.in_flight == 0)
    return arrival.in_flight * clients >= conditions.engine_rows


def _queue_full(conditions: Conditions, server: Server) -> QueueFull | None:
    if conditions.in_flight < server.max_queue:
        return None
    full = f"{conditions.in_flight} requests are in flight, and {server.max_queue} is the bound"
    return QueueFull(f"{full}; try again shortly", retry_after_s=conditions.retry_after_s)


def prompt_refusal(conditions: Conditions, prompt_tokens: int, server: Server) -> ServiceError | None:
    """Why a request is not taken now that the length of its prompt is known, or None when it is."""
    bound = server.shed_long_prompt_tokens
    if conditions.shed.level >= ShedLevel.BATCH_AND_LONG and prompt_tokens > bound:
        return _overloaded(conditions, f"prompts over {bound} tokens are (this one has {prompt_tokens})")
    waiting, most = conditions.waiting_tokens, server.max_queue_tokens
    # However long, a prompt is served when it is the only one that waits.
    if waiting and waiting + prompt_tokens > most:
        full = f"prompts of {waiting} tokens wait, and with this one's {prompt_tokens} they are over {most}"
        return QueueFull(f"{full}; try again shortly", retry_after_s=conditions.retry_after_s)
    return None


def _overloaded(conditions: Conditions, who: str) -> Overloaded:
    message = f"the server is short of resources ({conditions.shed.reason}) and {who} turned away; try again later"
    return Overloaded(message, retry_after_s=conditions.retry_after_s)


def output_bound(prompt_tokens: int, asked: int | None, server: Server, window: Window) -> int:
    """The most tokens a request may write; `asked` is its own bound. Raises `ContextLengthExceeded`."""
    left = window.tokens - prompt_tokens
    bound = f"{window.bound} {window.tokens} tokens"
    if left < 1:
        raise ContextLengthExceeded(
            f"{bound} and the messages are at least {prompt_tokens} tokens, which leaves none to answer; "
            "shorten the messages",
            param="messages",
            excess=Excess(prompt_tokens, asked or 1, window.tokens),
        )
    if asked is None:
        return min(left, server.default_max_tokens)
    if asked > left:
        raise ContextLengthExceeded(
            f"{bound}, but {prompt_tokens + asked} are asked for: {prompt_tokens} in the messages and {asked} to "
            f"answer; shorten the messages or ask for at most {left}",
            param="max_tokens",
            excess=Excess(prompt_tokens, asked, window.tokens),
        )
    return asked
