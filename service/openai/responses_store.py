"""Responses that may be read again, and gone on from, by their id; in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from ..conversation import Turn
from ..errors import InvalidRequest

MAX_SIZE = 64 * 1024 * 1024


class ResponseNotFound(InvalidRequest):
    """The response that a request names is not, or no longer, remembered."""

    status = 404
    code = "response_not_found"


@dataclass(frozen=True)
class Remembered:
    """A response as it was sent, and the conversation up to and with it."""

    body: bytes
    turns: tuple[Turn, ...]

    @property
    def size(self) -> int:
        """About its bytes."""
        return len(self.body) + sum(_length(turn) for turn in self.turns)


class ResponseStore:
    """The least recently used response goes first when all of them together are too long."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._responses: OrderedDict[str, Remembered] = OrderedDict()
        self._size = 0

    def keep(self, response_id: str, response: Remembered) -> None:
        self._responses[response_id] = response
        self._size += response.size
        while self._size > self._max_size:
            _, oldest = self._responses.popitem(last=False)
            self._size -= oldest.size

    def get(self, response_id: str, param: str) -> Remembered:
        """`param` is what the API calls the id. Raises `ResponseNotFound`."""
        response = self._responses.get(response_id)
        if response is None:
            raise ResponseNotFound(
                f"no response `{response_id}` is remembered here; send the whole conversation as `input`", param=param
            )
        self._responses.move_to_end(response_id)
        return response

    def forget(self, response_id: str, param: str) -> None:
        """Raises `ResponseNotFound`."""
        self._size -= self.get(response_id, param).size
        del self._responses[response_id]


def _length(turn: Turn) -> int:
    return len(turn.text) + len(turn.reasoning) + sum(len(call.arguments) for call in turn.calls)
