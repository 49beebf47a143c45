"""One answer in the service's own words: text, reasoning and tool calls, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .conversation import Tool, ToolCall
from .markup import Kind, Markup, Splitter
from .tools import read_calls


@dataclass(frozen=True)
class Text:
    """What the model says."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """What it thinks before it says it."""

    text: str


Segment = Text | Reasoning | ToolCall


class SegmentReader:
    """Takes the model's text, gives segments. A tool call that cannot be read becomes text, without its tags."""

    def __init__(self, markup: Markup, tools: Sequence[Tool] = (), *, in_reasoning: bool = False) -> None:
        self._markup = markup
        self._tools = tools
        self._splitter = Splitter(markup, in_reasoning=in_reasoning)

    @property
    def in_reasoning(self) -> bool:
        return self._splitter.kind is Kind.REASONING

    def feed(self, piece: str) -> list[Segment]:
        return [
            segment for fragment in self._splitter.feed(piece) for segment in self._read(fragment.kind, fragment.text)
        ]

    def finish(self) -> list[Segment]:
        return [segment for fragment in self._splitter.finish() for segment in self._read(fragment.kind, fragment.text)]

    def _read(self, kind: Kind, text: str) -> Sequence[Segment]:
        match kind:
            case Kind.TEXT:
                return [Text(text)]
            case Kind.REASONING:
                return [Reasoning(text)]
            case Kind.CALL:
                assert self._markup.call is not None, "it was found by its tag"
                calls = read_calls(self._markup.call, text, self._tools)
                broken = "" if calls else self._without_tags(text).strip()
                return calls or ([Text(broken)] if broken else [])

    def _without_tags(self, text: str) -> str:
        """In a call they were not tags, and in text they must not stand. What is left may make up another one."""
        tag = next((tag for tag in self._markup.tags(Kind.TEXT) if tag in text), None)
        return text if tag is None else self._without_tags(text.replace(tag, ""))


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """The same with neighbours of one kind joined."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        match last, segment:
            case Text(), Text():
                joined[-1] = Text(last.text + segment.text)
            case Reasoning(), Reasoning():
                joined[-1] = Reasoning(last.text + segment.text)
            case _:
                joined.append(segment)
    return joined
