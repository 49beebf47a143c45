"""The content blocks of the Anthropic API: what a message is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ..schemas import JsonObject, Part, text_parts


class TextBlock(Part):
    """Words."""

    harmless = frozenset({"cache_control"})
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"citations": ([],)}

    type: Literal["text"]
    text: str


class ThinkingBlock(Part):
    """What an assistant thought earlier."""

    harmless = frozenset({"signature", "cache_control"})

    type: Literal["thinking"]
    thinking: str


class RedactedThinkingBlock(Part):
    """What nobody here can read."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(Part):
    """A call that the assistant made earlier."""

    harmless = frozenset({"cache_control", "caller", "toolset_name"})

    type: Literal["tool_use"]
    id: str
    name: str
    input: JsonObject


class ToolResultBlock(Part):
    """What a tool answered."""

    harmless = frozenset({"cache_control", "toolset_name"})

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[
        list[TextBlock] | None, BeforeValidator(text_parts, json_schema_input_type=str | list[TextBlock] | None)
    ] = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """Models know no flag for an error, only words."""
        text = joined(self.content or ())
        return f"Error: {text}" if self.is_error else text


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock, Field(discriminator="type")
]
TextBlocks = Annotated[list[TextBlock], BeforeValidator(text_parts, json_schema_input_type=str | list[TextBlock])]
Blocks = Annotated[list[Block], BeforeValidator(text_parts, json_schema_input_type=str | list[Block])]


def joined(blocks: list[TextBlock] | tuple[()]) -> str:
    """Blocks are apart from each other, so their texts are too."""
    return "\n\n".join(block.text for block in blocks)
