"""The tags in a model's text, as a stream: what is said, what is thought, and what is a tool call. Pure.

Nothing that could be the beginning of a tag is let out before that is settled, so no client sees half of one.
White space beside a tag belongs to the tag. Every way to cut a text into pieces gives the same fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .stop import overlap


class Kind(StrEnum):
    """What a stretch of text is."""

    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"


@dataclass(frozen=True)
class Fragment:
    """A stretch without its tags. A `CALL` is always whole: the text between its tags."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class CallFormat:
    """How a model writes tool calls. Without an `end` a call goes on to the end of the answer; `bare` says that an
    answer which begins with a brace is a call as well."""

    start: str
    end: str
    parse: Callable[[str, list[dict[str, Any]]], Any]
    bare: bool = False


@dataclass(frozen=True)
class Markup:
    """The tags of one model that matter to one request. `noise` are tags that are dropped where they stand."""

    think: tuple[str, str] | None = None
    call: CallFormat | None = None
    noise: tuple[str, ...] = ()

    def tags(self, kind: Kind) -> Mapping[str, Kind]:
        """The tags that count inside `kind`, each with what follows it."""
        if kind is Kind.CALL:
            return {self.call.end: Kind.TEXT} if self.call is not None and self.call.end else {}
        tags: dict[str, Kind] = {}
        if self.think is not None:
            # Templates may have opened the reasoning already, and models close it twice: such tags change nothing.
            tags = {self.think[0]: Kind.REASONING, self.think[1]: Kind.TEXT}
        if kind is Kind.TEXT:
            tags |= dict.fromkeys(self.noise, Kind.TEXT)
            if self.call is not None:
                # Models close calls that they never opened, too.
                tags |= {self.call.end: Kind.TEXT} if self.call.end else {}
                tags[self.call.start] = Kind.CALL
        return tags


class Splitter:
    """Cuts one answer into fragments as it arrives."""

    def __init__(self, markup: Markup, *, in_reasoning: bool = False) -> None:
        self._tags = {kind: markup.tags(kind) for kind in Kind}
        self.kind = Kind.REASONING if in_reasoning else Kind.TEXT
        self._held = ""
        self._space = ""
        self._body: list[str] = []
        self._beside_tag = in_reasoning
        self._may_be_bare = markup.call is not None and markup.call.bare and not in_reasoning

    def feed(self, piece: str) -> list[Fragment]:
        """What is settled now."""
        if not self._tags[Kind.TEXT]:
            return _fragments(Kind.TEXT, piece)
        self._held += piece
        if self._may_be_bare and not self._decide_bare():
            return []
        fragments: list[Fragment] = []
        while (tag := _first(self._held, self._tags[self.kind])) is not None:
            start, text = tag
            fragments += self._let_out(self._held[:start]) + self._close()
            self._held = self._held[start + len(text) :]
            self.kind = self._tags[self.kind][text]
        keep = max((overlap(self._held, tag) for tag in self._tags[self.kind]), default=0)
        settled = len(self._held) - keep
        fragments += self._let_out(self._held[:settled])
        self._held = self._held[settled:]
        return fragments

    def finish(self) -> list[Fragment]:
        """The rest, once nothing follows."""
        self._may_be_bare = False
        fragments = self._let_out(self._held)
        self._held = ""
        if self.kind is Kind.CALL:
            return fragments + self._close()
        space = "" if self._beside_tag or self.kind is Kind.REASONING else self._space
        return fragments + _fragments(self.kind, space)

    def _decide_bare(self) -> bool:
        """Whether it is known that the answer is, or is not, one bare call."""
        begin = self._held.lstrip()
        if begin:
            self._may_be_bare = False
            if begin.startswith("{"):
                self.kind = Kind.CALL
        return bool(begin)

    def _let_out(self, text: str) -> list[Fragment]:
        if self.kind is Kind.CALL:
            self._body.append(text)
            return []
        text = self._space + text
        if self._beside_tag:
            text = text.lstrip()
        settled = text.rstrip()
        self._space = text[len(settled) :]
        self._beside_tag = self._beside_tag and not settled
        return _fragments(self.kind, settled)

    def _close(self) -> list[Fragment]:
        """A tag ends what was open."""
        self._space = ""
        self._beside_tag = True
        body, self._body = "".join(self._body), []
        return [Fragment(Kind.CALL, body)] if self.kind is Kind.CALL else []


def _fragments(kind: Kind, text: str) -> list[Fragment]:
    return [Fragment(kind, text)] if text else []


def _first(text: str, tags: Iterable[str]) -> tuple[int, str] | None:
    """The tag that is complete first, with its place: the choice that no later text could change."""
    found = [(start + len(tag), start, tag) for tag in tags if (start := text.find(tag)) >= 0]
    if not found:
        return None
    _, start, tag = min(found)
    return start, tag
