"""Conversations of `/v1/responses` that may be gone on with by the id of their last response; in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict

from ..conversation import Turn
from ..errors import InvalidRequest

MAX_CHARACTERS = 64 * 1024 * 1024


class ResponseNotFound(InvalidRequest):
    """The response that a request goes on from is not, or no longer, remembered."""

    status = 404
    code = "previous_response_not_found"


class ResponseStore:
    """The least recently used conversation goes first when all of them together are too long."""

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._conversations: OrderedDict[str, tuple[Turn, ...]] = OrderedDict()
        self._characters = 0

    def keep(self, response_id: str, turns: tuple[Turn, ...]) -> None:
        self._conversations[response_id] = turns
        self._characters += _length(turns)
        while self._characters > self._max_characters and self._conversations:
            _, oldest = self._conversations.popitem(last=False)
            self._characters -= _length(oldest)

    def turns(self, response_id: str) -> tuple[Turn, ...]:
        """Raises `ResponseNotFound`."""
        turns = self._conversations.get(response_id)
        if turns is None:
            raise ResponseNotFound(
                f"no response `{response_id}` is remembered here; send the whole conversation as `input`",
                param="previous_response_id",
            )
        self._conversations.move_to_end(response_id)
        return turns


def _length(turns: tuple[Turn, ...]) -> int:
    return sum(len(turn.text) + len(turn.reasoning) + sum(len(call.arguments) for call in turn.calls) for turn in turns)
