"""Whether a request is taken, and how many tokens it may write. Pure: every fact is passed in."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Server
from .errors import ContextLengthExceeded, EngineLoading, EngineUnavailable, QueueFull, ServiceError, ShuttingDown


@dataclass(frozen=True)
class Conditions:
    """The state of the service at the moment a request arrives.

    `engine_capacity` is how many requests an engine holds, None as long as there has never been one;
    `engine_down_s` is how long it has been gone, None while it is there. `in_flight` counts requests taken so far.
    """

    stopping: bool
    text_ready: bool
    engine_capacity: int | None
    engine_down_s: float | None
    in_flight: int


def unready(conditions: Conditions) -> ServiceError | None:
    """Why the service cannot work at this very moment, or None when it can."""
    if conditions.stopping:
        return ShuttingDown("the server is shutting down; try again when it is back")
    if not conditions.text_ready or conditions.engine_capacity is None:
        return EngineLoading("the model is still loading; try again in a moment")
    if conditions.engine_down_s is not None:
        gone = f"the engine has been gone for {conditions.engine_down_s:.1f} s and is being restarted"
        return EngineUnavailable(f"{gone}; try again in a moment")
    return None


def refusal(conditions: Conditions, server: Server) -> ServiceError | None:
    """Why a request that arrives now is not taken, or None when it is.

    A request that arrives while the engine restarts is taken: it waits as those wait that were there before.
    """
    reason = unready(conditions)
    down_s = conditions.engine_down_s or 0.0
    if reason is not None and not (isinstance(reason, EngineUnavailable) and down_s < server.resume_deadline_s):
        return reason
    assert conditions.engine_capacity is not None, "not loading, so an engine has been there"
    # After a restart every request goes to the new engine at once, so never more than one engine holds.
    bound = min(server.max_queue, conditions.engine_capacity)
    if conditions.in_flight >= bound:
        return QueueFull(f"{conditions.in_flight} requests are in flight, and {bound} is the bound; try again shortly")
    return None


def output_bound(prompt_tokens: int, asked: int | None, server: Server, context_tokens: int) -> int:
    """The most tokens a request may write; `asked` is its own bound. Raises `ContextLengthExceeded`."""
    left = context_tokens - prompt_tokens
    window = f"the model's window is {context_tokens} tokens"
    if left < 1:
        raise ContextLengthExceeded(
            f"{window} and the messages are {prompt_tokens} tokens, which leaves none to answer; shorten the messages",
            param="messages",
        )
    if asked is None:
        return min(left, server.default_max_tokens)
    if asked > left:
        raise ContextLengthExceeded(
            f"{window}, but {prompt_tokens + asked} are asked for: {prompt_tokens} in the messages and {asked} to "
            f"answer; shorten the messages or ask for at most {left}",
            param="max_tokens",
        )
    return asked
