"""Rows on MLX: one ragged forward pass a step, usually launched before the step before it has been read.

While the device works on a step, the tokens of the one before are handed out and the next graph is built; a step's
input tokens are then the lazy output of the step before. Rows that draft, follow a grammar or look back at their own
output must know their tokens first, so with such rows around every step is read before the next is launched
(`needs_tokens`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from . import memory as mlx_memory
from .adjustments import Context, History
from .batch import Found, RowSpec, Sampled, TierSize
from .batch_rows import BatchRow, Drawing, ExpectedRow, Launch, input_ids
from .drafting import Drafting
from .errors import GrammarError
from .grammar import Forced, GrammarCompiler, MaskWorker, Matcher
from .memory import MemoryPlan
from .prefix_cache import PrefixCache
from .protocol import Grammar, Limits, Memory, MissReason, Tier, TokenLogprob
from .ragged import RaggedModel
from .sampling import Draws, SamplerCache
from .scheduler import Chunk
from .speculative import MAX_DRAFT, NO_DRAFT, Draft, common_prefix

SURE_TOKENS = 64
"""A row is let in only with room for so much output of every row, so that it is not preempted at once again."""

FLUSH_DEADLINE_S = 3.0
"""How long the end of the process may wait for blocks that are queued for the disk."""


class MlxBatch:
    """Implements `batch.Batch`. Every method runs on the step thread.

    One that `runs_ahead` leaves a step to the device while the next is built. On a CPU that wins nothing, since a
    launch waits until all but the last few operations before it are done (MLX bounds them), and each token would be
    handed out a whole step after it was drawn.
    """

    def __init__(
        self,
        model: RaggedModel,
        *,
        name: str,
        limits: Limits,
        vocabulary: int,
        memory: MemoryPlan,
        grammars: GrammarCompiler | None,
        drafting: Drafting,
        prefixes: PrefixCache | None = None,
        runs_ahead: bool = True,
    ) -> None:
        self._model = model
        self._runs_ahead = runs_ahead
        self._name = name
        self._limits = limits
        self._vocabulary = vocabulary
        self._memory = memory
        self._grammars = grammars
        self._masks = MaskWorker(vocabulary)
        self._drafting = drafting
        self._prefixes = prefixes
        self._expected: dict[str, ExpectedRow] = {}
        self._rows: dict[str, BatchRow] = {}
        self._under_way: deque[Launch] = deque()
        self._unsettled: list[BatchRow] = []
        """Rows that drew or were removed since the prefix cache was last told."""
        self._samplers = SamplerCache()

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def model(self) -> str:
        return self._name

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    @property
    def needs_tokens(self) -> bool:
        must_know = any(row.must_know_its_tokens for row in self._rows.values())
        return not self._runs_ahead or self._drafting.wants_to_draft or must_know

    def refusal(self, grammar: Grammar) -> str | None:
        if self._grammars is None:
            return "this model has no tokenizer.json, so its output cannot be constrained"
        try:
            self._grammars.matcher(grammar)
        except GrammarError as error:
            return str(error)
        return None

    def expect(self, spec: RowSpec) -> None:
        tokens = spec.sequence
        lease = self._prefixes.lease(tokens) if self._prefixes is not None and spec.use_prefix_cache else None
        self._expected[spec.id] = ExpectedRow(spec, tokens, lease)

    def should_wait(self, row_id: str) -> bool:
        lease = self._expected[row_id].lease
        return self._prefixes is not None and lease is not None and self._prefixes.should_wait(lease)

    def has_room_for(self, row_id: str) -> bool:
        expected = self._expected[row_id]
        in_use = (
            self._prefixes.in_use(expected.lease) if self._prefixes is not None and expected.lease is not None else 0
        )
        needs = [(max(row.state.length, row.known) + SURE_TOKENS, row.shared) for row in self._rows.values()]
        needs.append((len(expected.tokens) + SURE_TOKENS, in_use))
        return self._memory.kv.taken(needs) + self._read_nbytes <= self._memory.kv.nbytes

    def has_room_after(self, chunks: Sequence[Chunk]) -> bool:
        return self._own_nbytes(chunks) + self._read_nbytes <= self._memory.kv.nbytes

    def add(self, row_id: str) -> Found:
        expected = self._expected.pop(row_id)
        spec, tokens, lease = expected.spec, expected.tokens, expected.lease
        history = History(self._vocabulary, spec.prompt, spec.emitted) if spec.sampling.looks_back else None
        matcher = None
        if spec.grammar is not None:
            assert self._grammars is not None, "a grammar that was not refused"
            matcher = self._grammars.matcher(spec.grammar, spec.emitted)
        if self._prefixes is not None and lease is not None:
            state, found = self._prefixes.begin(lease, tokens)
        else:
            miss = MissReason.NOT_TRIMMABLE if spec.use_prefix_cache else None
            state, found = self._model.new_row(), Found(miss=miss)
        self._rows[row_id] = BatchRow(spec, state, tokens, lease, history, matcher)
        forced = Forced(matcher) if matcher is not None else None
        self._drafting.add(row_id, tokens, spec.sampling, len(spec.emitted), forced)
        return found

    def launch(self, chunks: Sequence[Chunk]) -> None:
        if self._prefixes is not None:
            self._prefixes.make_room(self._memory.kv.nbytes - self._own_nbytes(chunks))
        rows = [self._rows[chunk.id] for chunk in chunks]
        drafts = self._drafts(rows, chunks)
        counts = [chunk.count + len(draft.tokens) for chunk, draft in zip(chunks, drafts, strict=True)]
        drawings: list[Drawing] = []
        wanted: list[int] = []
        for row, chunk, draft, end in zip(rows, chunks, drafts, accumulate(counts), strict=True):
            if chunk.draws:
                drawings.append(Drawing(row, draft))
                wanted.extend(range(end - 1 - len(draft.tokens), end))
        ids = input_ids(rows, chunks, drafts, self._under_way[-1] if self._under_way else None)
        logits = self._model.forward([row.state for row in rows], counts, ids, wanted)
        draws = self._draw(drawings, logits)
        # A piece that draws nothing is pulled in by its caches; the others are pulled in by their tokens.
        quiet = [row for row, chunk in zip(rows, chunks, strict=True) if not chunk.draws]
        computed = [array for row in quiet for array in _arrays_of(row.state.caches)]
        computed += [array for row in rows for saved in row.state.checkpoints for array in saved.arrays.values()]
        mx.async_eval(draws.arrays(), computed)  # type: ignore[no-untyped-call]
        decodes_only = all(chunk.decodes for chunk in chunks)
        self._under_way.append(Launch(drawings, draws, computed, decodes_only))

    def preempt(self, row_id: str) -> int:
        assert not self._under_way, "a step is under way"
        row = self._rows[row_id]
        self.remove(row_id)
        self.settle()
        self.expect(replace(row.spec, emitted=row.tokens[len(row.spec.prompt) :]))
        return len(row.tokens)

    def collect(self, leave: int) -> list[Sampled]:
        sampled: list[Sampled] = []
        while len(self._under_way) > leave:
            launch = self._under_way.popleft()
            mx.eval(launch.computed)
            sampled.extend(self._read(launch))
        return sampled

    def remove(self, row_id: str) -> None:
        if self._expected.pop(row_id, None) is not None:
            return
        row = self._rows.pop(row_id)
        row.removed = True
        self._drafting.remove(row_id)
        self._unsettled.append(row)

    def settle(self) -> None:
        unsettled, self._unsettled = self._unsettled, []
        # One that drew and was then removed is there twice.
        for row in dict.fromkeys(unsettled):
            if row.removed:
                self._model.release(row.state)
            if self._prefixes is not None and row.lease is not None:
                tell = self._prefixes.end if row.removed else self._prefixes.advance
                tell(row.lease, row.state, row.tokens)

    def reclaim(self, level: int) -> int:
        assert not self._under_way, "a step is under way"
        assert not self._unsettled, "rows are not settled"
        before = mlx_memory.held()
        if self._prefixes is not None and level == 0:
            self._prefixes.restore()
        elif self._prefixes is not None and level >= 2:
            self._prefixes.shrink()
        if level:
            self._model.drop_stack()
            mx.clear_cache()
        return max(0, before - mlx_memory.held())

    def allow_drafts(self, allowed: bool) -> None:
        self._drafting.allowed = allowed

    def check_integrity(self) -> None:
        assert not self._rows and not self._expected and not self._unsettled, "rows are left behind"
        if self._prefixes is not None:
            self._prefixes.check_integrity()

    def close(self) -> None:
        self._masks.close()
        if self._prefixes is not None:
            self._prefixes.close(FLUSH_DEADLINE_S)

    def memory(self) -> Memory:
        kv = sum(row.state.nbytes for row in self._rows.values())
        kv += self._prefixes.nbytes if self._prefixes is not None else 0
        kv += self._drafting.kv_nbytes + self._model.stacked_nbytes
        rows = len(self._rows) + (self._prefixes.segments if self._prefixes is not None else 0)
        return self._memory.reading(kv, rows)

    def tiers(self) -> dict[Tier, TierSize]:
        return self._prefixes.tiers() if self._prefixes is not None else {}

    @property
    def _read_nbytes(self) -> int:
        """KV in the prefix cache that rows read."""
        return self._prefixes.pinned_nbytes if self._prefixes is not None else 0

    def _own_nbytes(self, chunks: Sequence[Chunk]) -> int:
        """KV that rows have to themselves once these chunks are computed.

        With as much for each as a draft may take, since its place stays allocated when it is refused.
        """
        counts = {chunk.id: chunk.count for chunk in chunks}
        rows = self._rows.items()
        saved = sum(checkpoint.nbytes for _, row in rows for checkpoint in row.state.checkpoints)
        lengths = ((row.state.length + counts.get(row_id, 0), row.shared) for row_id, row in rows)
        return saved + self._memory.kv.taken((length + MAX_DRAFT, shared) for length, shared in lengths)

    def _drafts(self, rows: Sequence[BatchRow], chunks: Sequence[Chunk]) -> list[Draft]:
        """A draft for each chunk, mostly empty; only rows whose tokens are all known can have one."""
        if self._under_way or not self._drafting.wants_to_draft:
            return [NO_DRAFT for _ in rows]
        pairs = zip(rows, chunks, strict=True)
        limits = {row.spec.id: chunk.draws - 1 for row, chunk in pairs if chunk.decodes}
        drafts = self._drafting.drafts(limits)
        return [_allowed(row.matcher, drafts.get(row.spec.id, NO_DRAFT)) for row in rows]

    def _draw(self, drawings: list[Drawing], logits: mx.array) -> Draws:
        """One token after the known end and after each draft token of every drawing."""
        if not drawings:
            return Draws(mx.array([], dtype=mx.uint32))
        samplings = [drawing.row.spec.sampling for drawing in drawings for _ in range(drawing.positions)]
        positions = [drawing.row.position + i for drawing in drawings for i in range(drawing.positions)]
        context = self._context(drawings, logits)
        for drawing in drawings:
            drawing.row.draws_under_way += 1
        return self._samplers.get(samplings)(logits, positions, context)

    def _context(self, drawings: list[Drawing], logits: mx.array) -> Context:
        masks = None
        if any(drawing.row.matcher is not None for drawing in drawings):
            future = self._masks.submit([(drawing.row.matcher, drawing.draft.tokens) for drawing in drawings])
            # The masks are made while the device computes the logits.
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
            masks = future.result()
        return Context([history for drawing in drawings for history in drawing.histories()], masks)

    def _read(self, launch: Launch) -> Iterator[Sampled]:
        samplings = [drawing.row.spec.sampling for drawing in launch.drawings for _ in range(drawing.positions)]
        drawn = iter(launch.draws.read(samplings))
        verdicts = []
        for drawing in launch.drawings:
            of_row = [next(drawn) for _ in range(drawing.positions)]
            drawing.row.draws_under_way -= 1
            if not drawing.row.removed:
                accepted = common_prefix(drawing.draft.tokens, [token for token, _ in of_row])
                verdicts.append(drawing.verdict(accepted))
                kept = of_row[: 1 + accepted]
                yield self._advance(drawing, kept)
        if launch.decodes_only:
            stacked = {row_id for row_id, row in self._rows.items() if row.state.stack is not None}
            self._drafting.observe(verdicts, stacked)
        else:
            self._drafting.skip()

    def _advance(self, drawing: Drawing, kept: list[tuple[int, TokenLogprob | None]]) -> Sampled:
        """Bring a row to its newest tokens."""
        row = drawing.row
        tokens = [token for token, _ in kept]
        rejected = drawing.positions - len(kept)
        if rejected:
            self._model.trim(row.state, rejected)
        row.tokens.extend(tokens)
        if row.history is not None:
            row.history.extend(tokens)
        if row.matcher is not None:
            for token in tokens:
                row.matcher.advance(token)
        self._drafting.extend(row.spec.id, tokens)
        self._unsettled.append(row)
        logprobs = [logprob for _, logprob in kept if logprob is not None]
        failure = row.matcher.failure if row.matcher is not None else None
        draft = drawing.draft
        return Sampled(row.spec.id, tokens, logprobs or None, len(draft.tokens), draft.method, failure)


def _allowed(matcher: Matcher | None, draft: Draft) -> Draft:
    """As much of a draft, from its start, as the row's grammar allows."""
    if matcher is None or not draft.tokens:
        return draft
    return Draft(draft.tokens[: matcher.allowed(draft.tokens)], draft.method)


def _arrays_of(caches: list[Any]) -> list[mx.array]:
    leaves = dict(tree_flatten([cache.state for cache in caches], destination={}))
    return [leaf for leaf in leaves.values() if isinstance(leaf, mx.array)]
