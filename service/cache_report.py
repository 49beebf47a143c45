"""What the prefix cache did for a request, as a header: `x-stoker-cache`.

`hit=1200/1500; tier=ram` says that 1,200 of the prompt's 1,500 tokens were not computed again, and where they were.
`miss=diverged; message=3` says why it were not more, and which message (from 0) is not what it was in the prompt
before: in agents that is mostly a line that changes with every request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .conversation import Conversation
from .entry import Prefix
from .errors import InvalidMessages

HEADER = "x-stoker-cache"


def describe(prefix: Prefix, message: int | None) -> str:
    """The header's value; `message` is the number of the one that diverged, where it is known."""
    parts = [f"hit={prefix.cached}/{prefix.total}"]
    if prefix.tier is not None:
        parts.append(f"tier={prefix.tier.value}")
    if prefix.miss is not None:
        parts.append(f"miss={prefix.miss.value}")
    if message is not None:
        parts.append(f"message={message}")
    return "; ".join(parts)


def message_at(
    token: int, ids: Sequence[int], conversation: Conversation, render: Callable[[Conversation], Sequence[int]]
) -> int | None:
    """The number of the message that the prompt's token belongs to; None where the template does not let one see.

    A message's tokens end where the prompt of the messages up to it stops to agree with the whole prompt. Found by
    bisection: a conversation of 1,000 messages is rendered ten times.
    """
    low, high = 0, len(conversation.turns) - 1
    try:
        while low < high:
            middle = (low + high) // 2
            part = render(replace(conversation, turns=conversation.turns[: middle + 1]))
            if _agreement(part, ids) > token:
                high = middle
            else:
                low = middle + 1
    except InvalidMessages:
        return None
    return low


def _agreement(one: Sequence[int], other: Sequence[int]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
