"""The simulated engine's text: every id is a byte, id 0 ends an answer, tags are those of Qwen 3."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

from .conversation import Conversation
from .markup import Markup
from .sampling import NO_WISHES
from .text import Prompt
from .tools import HERMES


class ByteText:
    """A chat template of plain lines."""

    stop_ids: list[int] = [0]  # noqa: RUF012 - a plain list is what goes into `Submit`, and nobody changes it
    markup = Markup(think=("<think>", "</think>"), call=HERMES)
    recommended = NO_WISHES

    def render(self, conversation: Conversation, most: int | None = None) -> Prompt:
        return Prompt(self.encode("".join(_lines(conversation)) + "assistant: ", most))

    def encode(self, text: str, most: int | None = None) -> list[int]:
        return list(text.encode())

    def text_of(self, token: int) -> str:
        return bytes([token]).decode(errors="replace")

    def detokenizer(self) -> ByteDetokenizer:
        return ByteDetokenizer()


class ByteDetokenizer:
    """UTF-8 as it arrives, byte by byte; bytes that are none become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        return self._decoder.decode(bytes([token]))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


def _lines(conversation: Conversation) -> Iterator[str]:
    for tool in conversation.tools:
        yield f"tool: {json.dumps(tool.as_function())}\n"
    for turn in conversation.turns:
        calls = "".join(f"<tool_call>{call.name} {call.arguments}</tool_call>" for call in turn.calls)
        yield f"{turn.role}: {turn.text}{calls}\n"
