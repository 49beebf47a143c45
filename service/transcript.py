"""The answer of one request as its client sees it: detokenized, read into segments, cut at the first stop string."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .conversation import ToolCall
from .segments import Segment, SegmentReader, Text, merged
from .stop import StopMatcher
from .text import Detokenizer


class Transcript:
    """Takes output ids, gives segments. Stop strings count in what is said, not in reasoning or tool calls.

    `tokens` counts the ids it used, `reasoning_tokens` those of them that were thought; `stopped_by` is the stop
    string that was met. Once it is `done`, by a stop string or the one call that was wanted, it takes no more.
    """

    def __init__(
        self, detokenizer: Detokenizer, reader: SegmentReader, stops: Sequence[str] = (), *, one_call: bool = False
    ) -> None:
        self._detokenizer = detokenizer
        self._reader = reader
        self._matcher = StopMatcher(stops)
        self._one_call = one_call
        self.tokens = 0
        self.reasoning_tokens = 0
        self.stopped_by: str | None = None
        self.called = False

    @property
    def done(self) -> bool:
        return self.stopped_by is not None or (self._one_call and self.called)

    def add(self, ids: Sequence[int]) -> list[Segment]:
        """The segments that these ids let out."""
        segments: list[Segment] = []
        for token in ids:
            self.tokens += 1
            self.reasoning_tokens += self._reader.in_reasoning
            segments += self._cut(self._reader.feed(self._detokenizer.add(token)))
            if self.done:
                break
        return merged(segments)

    def finish(self) -> list[Segment]:
        """The rest, once no more ids follow."""
        if self.done:
            return []
        segments = self._cut([*self._reader.feed(self._detokenizer.finish()), *self._reader.finish()])
        return merged(segments if self.done else [*segments, *self._held()])

    def _cut(self, segments: Iterable[Segment]) -> list[Segment]:
        kept: list[Segment] = []
        for segment in segments:
            if isinstance(segment, Text):
                text, self.stopped_by = self._matcher.feed(segment.text)
                kept += [Text(text)] if text else []
            else:
                kept += [*self._held(), segment]
                self.called = self.called or isinstance(segment, ToolCall)
            if self.done:
                break
        return kept

    def _held(self) -> list[Segment]:
        text = self._matcher.flush()
        return [Text(text)] if text else []
