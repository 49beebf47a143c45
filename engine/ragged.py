"""One forward pass for rows of different lengths, without padding a row to a stranger's length.

Left-padded batches make every row pay for the longest. Here the linear layers see all new tokens of all rows at once
([tokens, 1, hidden], each token its own batch entry with its own rotary offset), be they a piece of a prompt or the
next token of a stream, and only attention goes row by row (`ragged_attention`).

Not every model allows this, so `RaggedModel.probe` compares each way of batching with row-by-row logits when a model
is loaded, and takes the fastest one that is right:

- PACKED:  rows of any token counts in one pass (attention-only models);
- GROUPED: single-token rows in one pass, longer pieces alone (models with recurrent state);
- ROWWISE: each row alone (models that attend in ways we cannot see).
"""

from __future__ import annotations

import contextlib
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any

import mlx.core as mx
import structlog
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import (
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from .errors import ModelError
from .kv_arrays import Prefix, Quantization, SharedPart
from .ragged_attention import PrefixedKV, QuantizedKV, RaggedKV, continued
from .row_layers import alone, gather, own_copy, scatter
from .row_stack import CALM_PASSES, Stacking
from .row_state import STATE_CACHES, Checkpoint, RowState, keeps_kv, kv_leaves, leaves, mapped

log = structlog.get_logger(__name__)

_ATTENTION_CACHES = (KVCache, RotatingKVCache, QuantizedKVCache, ChunkedKVCache)


class Mode(Enum):
    """How many rows share a forward pass; see the module's docstring."""

    PACKED = "packed"
    GROUPED = "grouped"
    ROWWISE = "rowwise"


class _FinalNorm(Module):
    """A model's last norm, which drops the tokens whose logits nobody wants before the output layer sees them."""

    def __init__(self, norm: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._norm = norm
        self._keep: mx.array | None = None

    @contextlib.contextmanager
    def keeping(self, tokens: mx.array | None) -> Iterator[None]:
        """Inside the block only these tokens pass (None: all); a pass that raises leaves nothing narrowed."""
        self._keep = tokens
        try:
            yield
        finally:
            self._keep = None

    def __call__(self, hidden: mx.array) -> mx.array:
        normed: mx.array = self._norm(hidden if self._keep is None else hidden[self._keep])
        return normed


class RaggedModel:
    """An mlx-lm model and how its rows may share a pass."""

    def __init__(self, model: Any, mode: Mode) -> None:
        self._model = model
        self.mode = mode
        self.quantization: Quantization | None = None
        """Of the KV of its rows, but for windows, which do not grow."""
        self._final_norm = _wrap_final_norm(model) if mode is Mode.PACKED else None
        fresh = list(leaves(make_prompt_cache(model)))
        self.resumes = all(type(leaf) is KVCache or type(leaf) in STATE_CACHES for leaf in fresh)
        """Whether a row can begin with what another one computed: every cache is of a class that can be kept."""
        self.stacks = False
        """Whether short rows may attend together (`row_stack`); only looked for where that pays, on a CPU."""
        self._stacking: Stacking | None = None
        self.needs_checkpoints = any(isinstance(leaf, STATE_CACHES) for leaf in fresh)
        """Whether that takes a checkpoint beside the KV."""

    @classmethod
    def probe(cls, model: Any) -> RaggedModel:
        """The fastest mode in which this model's logits are those of its rows alone.

        Two short rows go through it; this is also the model's first compilation. Ids 0 to 7 must be tokens.
        """
        by_row = cls(model, Mode.ROWWISE)
        attends_only = all(isinstance(cache, _ATTENTION_CACHES) for cache in by_row.new_row().caches)
        candidate = cls(model, Mode.PACKED if attends_only else Mode.GROUPED)
        expected = _probe_logits(by_row)
        chosen = candidate if _agrees(lambda: _probe_logits(candidate), expected, candidate.mode.value) else by_row
        if chosen.resumes:
            chosen.resumes = _agrees(lambda: _resumed_logits(chosen), expected[2:4], "resumed")
        on_cpu = mx.default_device().type == mx.DeviceType.cpu
        plain = all(type(cache) is KVCache for cache in make_prompt_cache(model))
        if on_cpu and plain and chosen.mode is Mode.PACKED:
            expected = _calm_logits(chosen)
            chosen._stacking = Stacking(limit_bytes=sys.maxsize)
            chosen.stacks = _agrees(lambda: _calm_logits(chosen), expected, "stacked")
            chosen._stacking = None
        return chosen

    @property
    def shares_parts(self) -> bool:
        """Whether rows read common KV where it lies; otherwise each gets a copy."""
        return self.mode is not Mode.ROWWISE

    def new_row(self, prefixes: Sequence[Prefix] = (), checkpoint: Checkpoint | None = None) -> RowState:
        """A row that begins with these prefixes, one after the other, and what `checkpoint` has beside them.

        Only where `resumes`; where `needs_checkpoints`, one of the prefixes' very length belongs to them.
        """
        parts = zip(*(prefix.layers for prefix in prefixes), strict=True)
        caches = mapped(
            make_prompt_cache(self._model),
            lambda leaf: self._beginning(next(parts, ())) if isinstance(leaf, KVCache) else leaf,
        )
        begun = sum(prefix.tokens for prefix in prefixes)
        if checkpoint is not None:
            assert checkpoint.tokens == begun, f"a checkpoint at {checkpoint.tokens} for {begun} tokens"
            checkpoint.restore(caches)
        return RowState(caches, begun, shared=begun if self.shares_parts else 0)

    def _beginning(self, parts: Sequence[SharedPart]) -> Any:
        """One layer's cache of a row that begins with these parts."""
        if self.quantization is not None:
            return QuantizedKV(parts, self.quantization)
        if not parts:
            return KVCache()
        return PrefixedKV(parts) if self.shares_parts else own_copy(parts)

    def share(self, row: RowState, prefixes: Sequence[Prefix], moved: int) -> None:
        """Leave the first `moved` tokens of the row's tail to the last of `prefixes` (only where `shares_parts`)."""
        parts = zip(*(prefix.layers for prefix in prefixes), strict=True)
        row.caches = mapped(row.caches, lambda leaf: continued(leaf, next(parts), moved) if keeps_kv(leaf) else leaf)
        row.shared += moved

    def stack_short_rows(self, limit_bytes: int) -> None:
        """Let short rows attend together, if this model `stacks`, over copies of at most so many bytes."""
        if self.stacks and self.quantization is None:
            self._stacking = Stacking(limit_bytes)

    @property
    def stacked_nbytes(self) -> int:
        return self._stacking.nbytes if self._stacking is not None else 0

    def release(self, row: RowState) -> None:
        """A row has ended, or is about to change in ways of its own."""
        if self._stacking is not None:
            self._stacking.release(row)

    def drop_stack(self) -> None:
        """Give back what `stack_short_rows` takes; it is made again when it is needed."""
        if self._stacking is not None:
            self._stacking.drop()

    def quantize_kv(self, how: Quantization) -> None:
        """Keep the KV of new rows quantized. Raises `ModelError` where that cannot work."""
        if self.mode is Mode.ROWWISE:
            raise ModelError("it attends in a way of its own, which takes keys and values only as they are; remove it")
        self.check_groups(how)
        self.quantization = how

    def check_groups(self, how: Quantization) -> None:
        """Raise `ModelError` unless the model's KV can be cut into such groups."""
        row = self.new_row()
        self.forward([row], [1], mx.array([1]), wanted=[])
        widths = {array.shape[-1] for leaf in kv_leaves(row.caches) for array in (leaf.keys, leaf.values)}
        if not widths:
            raise ModelError("it keeps no keys and values that grow; remove it")
        unfit = [width for width in sorted(widths) if width % how.group_size]
        if unfit:
            raise ModelError(
                f"its keys or values are {unfit[0]} wide, which groups of {how.group_size} do not divide; "
                "set `engine.kv_group_size` to one that does"
            )

    def forward(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        """Append `counts[i]` of `ids` (flat, [sum(counts)]) to row i, for all rows; lazily.

        Returns the logits after each id whose index is in `wanted` (ascending), [wanted, vocabulary].
        """
        while ahead := _before_stops(rows, counts):
            counts, ids, wanted = self._run_ahead(ahead, rows, counts, ids, wanted)
        return self._pass(rows, counts, ids, wanted)

    def _run_ahead(
        self,
        ahead: dict[int, int],
        rows: Sequence[RowState],
        counts: Sequence[int],
        ids: mx.array,
        wanted: Sequence[int],
    ) -> tuple[list[int], mx.array, list[int]]:
        """Compute the first `ahead[i]` of the tokens of each row i in there; returns what is left of all."""
        pieces = ids.split(tuple(accumulate(counts))[:-1])
        first = mx.concatenate([pieces[i][:count] for i, count in ahead.items()])
        self._pass([rows[i] for i in ahead], list(ahead.values()), first, [])
        left = [count - ahead.get(i, 0) for i, count in enumerate(counts)]
        rest = mx.concatenate([piece[ahead.get(i, 0) :] for i, piece in enumerate(pieces)])
        gone = list(accumulate(ahead.get(i, 0) for i in range(len(rows))))
        ends = list(accumulate(counts))
        return left, rest, [index - gone[bisect_right(ends, index)] for index in wanted]

    def _pass(self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]) -> mx.array:
        if self.mode is Mode.PACKED:
            logits = self._packed(rows, counts, ids, wanted)
        else:
            logits = self._separate(rows, counts, ids, wanted)
        for row, count in zip(rows, counts, strict=True):
            row.advance(count)
        if self._stacking is not None:
            self._stacking.passed()
        return logits

    @property
    def trims(self) -> bool:
        """Whether tokens can be taken back: attention over everything, nothing recurrent or sliding."""
        trimmable = (KVCache, QuantizedKVCache)
        return all(isinstance(cache, trimmable) for cache in make_prompt_cache(self._model))

    def trim(self, row: RowState, count: int) -> None:
        """Take back the last `count` tokens of a row (only where `trims`)."""
        self.release(row)
        for cache in row.caches:
            cache.trim(count)
        row.length -= count

    def _packed(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        offset = mx.array([row.length + i for row, count in zip(rows, counts, strict=True) for i in range(count)])
        stacked = self._stacking.layers(rows, counts, offset) if self._stacking is not None else None
        layers = stacked or [
            RaggedKV(caches, counts, offset) for caches in zip(*(row.caches for row in rows), strict=True)
        ]
        keep = mx.array(list(wanted), dtype=mx.int32) if len(wanted) < ids.size else None
        if self._final_norm is None:
            logits: mx.array = self._model(ids[:, None], cache=layers)
            return logits[:, -1] if keep is None else logits[keep, -1]
        with self._final_norm.keeping(keep):
            logits = self._model(ids[:, None], cache=layers)
        return logits[:, -1]

    def _separate(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        """Single-token rows as a group where the mode has groups; every other row by itself."""
        ends = list(accumulate(counts))
        pieces = ids.split(tuple(ends[:-1]))
        group = [i for i, row in enumerate(rows) if counts[i] == 1 and row.length] if self.mode is Mode.GROUPED else []
        logits: dict[int, mx.array] = {}
        if len(group) > 1:
            together = self._grouped([rows[i] for i in group], mx.concatenate([pieces[i] for i in group]))
            logits = dict(zip(group, together.split(len(group)), strict=True))
        for i, row in enumerate(rows):
            if i not in logits:
                logits[i] = self._model(pieces[i][None], cache=alone(row, counts[i]))[0]
        if not wanted:
            return mx.zeros((0, 0))
        row_of = [bisect_right(ends, index) for index in wanted]
        places = [counts[row] - (ends[row] - index) for row, index in zip(row_of, wanted, strict=True)]
        return mx.stack([logits[row][place] for row, place in zip(row_of, places, strict=True)])

    def _grouped(self, rows: Sequence[RowState], ids: mx.array) -> mx.array:
        offset = mx.array([row.length for row in rows])
        layers = [gather(caches, offset) for caches in zip(*(row.caches for row in rows), strict=True)]
        logits: mx.array = self._model(ids[:, None], cache=layers)[:, -1]
        for index, row in enumerate(rows):
            row.caches = [scatter(layer, index) for layer in layers]
        return logits


def _wrap_final_norm(model: Any) -> _FinalNorm | None:
    """Found where nearly all of mlx-lm's models have it; others pay for the logits of every token."""
    inner = getattr(getattr(model, "language_model", model), "model", None)
    norm = getattr(inner, "norm", None)
    if isinstance(norm, _FinalNorm):
        return norm
    if inner is None or not isinstance(norm, Module):
        return None
    inner.norm = wrapped = _FinalNorm(norm)
    return wrapped


def _before_stops(rows: Sequence[RowState], counts: Sequence[int]) -> dict[int, int]:
    """The rows whose tokens lead past a place where a checkpoint is due, and how many tokens lead there."""
    stops = ((i, row.next_stop, row.length, count) for i, (row, count) in enumerate(zip(rows, counts, strict=True)))
    return {i: stop - length for i, stop, length, count in stops if stop is not None and stop < length + count}


def _agrees(batched: Callable[[], mx.array], expected: mx.array, what: str) -> bool:
    try:
        return bool(mx.all(mx.abs(batched() - expected) < 0.1 * mx.std(expected)))
    except Exception as error:
        # Whatever a model raises when it meets such a batch, it does not take one.
        log.info("ragged_batch_refused", what=what, error=repr(error))
        return False


def _probe_logits(model: RaggedModel) -> mx.array:
    """Logits of two rows after steps of unequal pieces and a step of single tokens, [7, vocabulary]."""
    rows = [model.new_row(), model.new_row()]
    steps = [
        model.forward(rows, [5, 3], mx.array([1, 2, 3, 4, 5, 6, 7, 1]), wanted=[5, 7]),
        model.forward(rows, [2, 1], mx.array([2, 3, 5]), wanted=[0, 1, 2]),
        model.forward(rows, [1, 1], mx.array([4, 1]), wanted=[0, 1]),
    ]
    return mx.concatenate(steps).astype(mx.float32)


def _calm_logits(model: RaggedModel) -> mx.array:
    """Of two rows that have got one token at a time for long enough to be stacked, [2, vocabulary]."""
    rows = [model.new_row(), model.new_row()]
    logits = model.forward(rows, [5, 3], mx.array([1, 2, 3, 4, 5, 6, 7, 1]), wanted=[5, 7])
    for token in range(CALM_PASSES + 3):
        logits = model.forward(rows, [1, 1], mx.array([token % 8, 7 - token % 8]), wanted=[0, 1])
        mx.eval(logits)
    for row in rows:
        model.release(row)
    return logits.astype(mx.float32)


def _resumed_logits(model: RaggedModel) -> mx.array:
    """Those of the first row's second step, from a row that begins with the first, [2, vocabulary]."""
    begun = model.new_row()
    model.forward([begun], [5], mx.array([1, 2, 3, 4, 5]), wanted=[])
    prefix = Prefix.copied(kv_leaves(begun.caches), 0, 5)
    checkpoint = Checkpoint.of(begun.caches, 5) if model.needs_checkpoints else None
    resumed = model.new_row([prefix], checkpoint)
    return model.forward([resumed], [2], mx.array([2, 3]), wanted=[0, 1]).astype(mx.float32)
