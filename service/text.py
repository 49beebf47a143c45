"""The text layer's interface: conversations to prompt ids, output ids to text, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .conversation import Conversation
from .markup import Markup
from .sampling import Wishes


@dataclass(frozen=True)
class Prompt:
    """What goes into the engine. `in_reasoning`: the answer begins in the middle of the model's reasoning."""

    ids: list[int]
    in_reasoning: bool = False


class Detokenizer(Protocol):
    """Makes text of one request's output ids, in order. A character that is not complete yet is held back."""

    def add(self, token: int) -> str:
        """The text that this id completes."""

    def finish(self) -> str:
        """The text that was held back, once nothing follows."""


class TextModel(Protocol):
    """How one model writes and reads."""

    @property
    def stop_ids(self) -> list[int]:
        """The ids at which the model's answer ends."""

    @property
    def markup(self) -> Markup:
        """The tags that it writes."""

    @property
    def recommended(self) -> Wishes:
        """The sampling that its makers recommend."""

    def render(self, conversation: Conversation, most: int | None = None) -> Prompt:
        """The prompt; of one far over `most` tokens, more of its beginning than that. May take long.

        Raises `InvalidMessages` when the chat template refuses the conversation.
        """

    def encode(self, text: str, most: int | None = None) -> list[int]:
        """The ids of a text as it stands, bounded likewise. May take long."""

    def text_of(self, token: int) -> str:
        """One id by itself, for those who look at single tokens."""

    def detokenizer(self) -> Detokenizer:
        """A fresh one, for one request."""
