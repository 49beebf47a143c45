"""Output that must follow a grammar: which tokens may come next, as bit masks made while the model computes.

llguidance does the parsing. A mask is `ceil(vocabulary / 32)` uint32 words; bit `i % 32` of word `i // 32` is set when
token `i` may come. End-of-text ids are in the mask once the grammar is satisfied. No MLX: the batch turns masks into
logits. A matcher belongs to one request and is rebuilt for a resumed one by advancing it over the emitted ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from .errors import GrammarError
from .protocol import Grammar, GrammarKind

COMPILED_GRAMMARS = 64
"""Kept for the next request with the same grammar; an agent sends the same tools with every turn."""

Mask = NDArray[np.uint32]

# A model that may write any amount of white space can do so forever. Enough for a line break and deep indentation.
_JSON_WHITE_SPACE = r"[\x20\x0A\x0D\x09]{1,64}"
_ALL = np.uint32(0xFFFFFFFF)


class GrammarCompiler:
    """Grammars over one model's tokens. Used from one thread; takes long only for enormous grammars."""

    def __init__(self, folder: Path, vocabulary: int, end_ids: Sequence[int]) -> None:
        """Reads the `tokenizer.json` of a model's folder, in about 0.2 s for 50,000 tokens. Raises `GrammarError`.

        `vocabulary` is the width of the model's logits; `end_ids` are those that end its output.
        """
        file = folder / "tokenizer.json"
        try:
            self._tokenizer = LLTokenizer(str(file), n_vocab=vocabulary, eos_token=list(end_ids))
        except ValueError as error:
            raise GrammarError(
                f"this model's output cannot be constrained: {error}; use a model with a tokenizer.json"
            ) from error
        self._words = words_of(vocabulary)
        self._end_ids = frozenset(end_ids)
        self._compiled = lru_cache(COMPILED_GRAMMARS)(self._compile)

    def matcher(self, grammar: Grammar, emitted: Iterable[int] = ()) -> Matcher:
        """A matcher at its start, or where an output of `emitted` ids has left it. Raises `GrammarError`."""
        matcher = Matcher(self._compiled(grammar).deep_copy(), self._words, self._end_ids)
        for token in emitted:
            matcher.advance(token)
        return matcher

    def _compile(self, grammar: Grammar) -> LLMatcher:
        try:
            source = _source_of(grammar)
        except ValueError as error:
            raise GrammarError(f"the {grammar.kind} is not JSON: {error}") from error
        compiled = LLMatcher(self._tokenizer, source, log_level=0)
        if compiled.is_error():
            raise GrammarError(f"the {grammar.kind} cannot be used: {_reason(compiled)}")
        return compiled


class Matcher:
    """One output and what may follow it. Not to be touched while a `MaskWorker` has it."""

    def __init__(self, matcher: LLMatcher, words: int, end_ids: frozenset[int]) -> None:
        self._matcher = matcher
        self._words = words
        self._end_ids = end_ids
        # The library takes an end-of-text id sometimes as a token of its own and sometimes not, which rolling back
        # would have to know. So it never sees one.
        self._ended = False

    @property
    def accepting(self) -> bool:
        """Whether the output so far satisfies the grammar; unless `stopped`, it may still go on."""
        return self._matcher.is_accepting()

    @property
    def stopped(self) -> bool:
        """Whether nothing but the end of text may follow."""
        return self._ended or self._matcher.is_stopped()

    @property
    def failure(self) -> str | None:
        """Why the output could not be followed any further, such as a grammar with too many readings; else None.

        A failed matcher takes every token and allows only the end of text, so that the request ends and no other one is
        hurt; its output is not complete.
        """
        return f"the output cannot be followed further: {_reason(self._matcher)}" if self._failed else None

    @property
    def _failed(self) -> bool:
        return self._matcher.is_error()

    def mask(self) -> Mask:
        """[words]: what may come next."""
        mask: Mask = self.masks(())[0]
        return mask

    def masks(self, draft: Sequence[int]) -> Mask:
        """[1 + draft, words]: what may come next, and then after each token of the draft, which must be allowed.

        Nothing is advanced.
        """
        masks = np.zeros((1 + len(draft), self._words), dtype=np.uint32)
        for mask, token in zip(masks, draft, strict=False):
            self._fill(mask)
            self.advance(token)
        self._fill(masks[-1])
        self.rollback(len(draft))
        return masks

    def advance(self, token: int) -> None:
        """Take one more token of output. Raises `GrammarError` when it is not allowed, and is as before then."""
        if not self._failed and self.allowed([token]) == 0:
            raise GrammarError(f"the token {token} is not allowed by the grammar here")
        if token in self._end_ids:
            self._ended = True
        elif not self._failed:
            self._matcher.consume_token(token)

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens; a failed matcher stays failed."""
        if count and self._ended:
            self._ended = False
            count -= 1
        went_back = self._matcher.rollback(count)
        assert went_back or self._failed, self._matcher.get_error()

    def allowed(self, draft: Sequence[int]) -> int:
        """How many tokens of a draft, from its start, the grammar allows."""
        if self.stopped:
            # The library counts an end of text only where something else could come too.
            return int(not self._ended and bool(self._end_ids.intersection(draft[:1])))
        length = self._matcher.validate_tokens(list(draft))
        # Nothing follows an end of text, whichever of several it is.
        ends = (i + 1 for i, token in enumerate(draft[:length]) if token in self._end_ids)
        return next(ends, length)

    def forced(self) -> list[int]:
        """Tokens that must come next, whatever the model thinks: a draft that is always accepted. Often none."""
        return [] if self._ended or self._failed else self._matcher.compute_ff_tokens()

    def _fill(self, mask: Mask) -> None:
        if not self._ended:
            self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if self._ended or self._failed:
            mask[:] = 0
            for token in self._end_ids:
                mask[token // 32] |= np.uint32(1 << token % 32)


class Forced:
    """A `Proposer` of what a matcher leaves no choice about. Whoever owns the matcher advances it."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def extend(self, tokens: Iterable[int]) -> None:
        """The matcher knows."""

    def propose(self, limit: int) -> list[int]:
        return self._matcher.forced()[:limit]


class MaskWorker:
    """Makes the masks of a step on a thread of its own, so that they are there when the forward pass is."""

    def __init__(self, vocabulary: int) -> None:
        self._words = words_of(vocabulary)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar-masks")

    def submit(self, rows: Sequence[tuple[Matcher | None, Sequence[int]]]) -> Future[Mask]:
        """[sum(1 + draft), words] for rows of (matcher, allowed draft), in order; without a matcher, every bit is set.

        The matchers belong to the worker until the future is done.
        """
        return self._thread.submit(self._masks, rows)

    def close(self) -> None:
        """Wait for what was submitted and end the thread."""
        self._thread.shutdown()

    def _masks(self, rows: Sequence[tuple[Matcher | None, Sequence[int]]]) -> Mask:
        return np.concatenate(
            [
                np.full((1 + len(draft), self._words), _ALL) if matcher is None else matcher.masks(draft)
                for matcher, draft in rows
            ]
        )


def words_of(vocabulary: int) -> int:
    """uint32 words in a mask."""
    return (vocabulary + 31) // 32


def _source_of(grammar: Grammar) -> str:
    """The library's own form of a grammar. Raises ValueError for a schema that is no JSON object."""
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return _json(grammar.source)
        case GrammarKind.JSON_OBJECT:
            return _json('{"type": "object"}')
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(grammar.source)
        case GrammarKind.LARK:
            return LLMatcher.grammar_from_lark(grammar.source)


def _json(schema: str) -> str:
    return LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": _JSON_WHITE_SPACE})


def _reason(matcher: LLMatcher) -> str:
    """The library's message in one line, without the dump of its state."""
    return " ".join(matcher.get_error().partition("<state>")[0].split())
