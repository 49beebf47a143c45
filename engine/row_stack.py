"""One attention for all short rows that get one token each, over a copy of their KV.

Row by row, attention takes a dozen operations for each row in every layer. Over a few hundred tokens these cost more on
a CPU than what they compute: 44 of the 107 ms of a step of the demo model with 16 rows. A stack holds such rows' KV as
[slots, kv_heads, columns, head_dim] in each layer, with the last token of every row in the same column, so that one
operation appends the next token of all and another one attends. Its rows may differ by `MAX_TOKENS` at most, which
bounds what padding costs.

While a row is in a stack, its own caches fall behind; whoever asks for them (`RowState.caches`) has them brought up to
date first. Nothing may be under way then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import mlx.core as mx

from .ragged_attention import PassKV, RaggedKV, RaggedMask, softmax, whole_kv
from .row_state import RowState

MAX_TOKENS = 384
"""Rows that are longer attend by themselves: their operations are worth it, and they may share parts."""
CALM_PASSES = 4
"""A row joins once it has got one token at a time for so long: one whose drafts are accepted would soon leave again."""
_SLOTS = 4
_COLUMNS = 64
"""By how many slots and columns a stack grows."""


class Stack:
    """Rows in slots; column `end` is where the next token of each goes."""

    def __init__(self, rows: Sequence[RowState]) -> None:
        """Of at least one row; some may be in another stack, which they leave for this one."""
        slots = _rounded(len(rows), _SLOTS)
        self.rows: list[RowState | None] = [*rows, *[None] * (slots - len(rows))]
        self.end = _rounded(max(row.length for row in rows), _COLUMNS)
        self._columns = self.end + _COLUMNS
        kv_of_rows = zip(*(_kv_of(row) for row in rows), strict=True)
        self.layers = [[self._laid_out(arrays, slots) for arrays in zip(*layer, strict=True)] for layer in kv_of_rows]
        mx.eval(self.layers)
        for row in rows:
            row.stack = self

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for layer in self.layers for array in layer)

    @property
    def start(self) -> int:
        """The first column that any row has a token in."""
        return self.end - max(row.length for row in self.rows if row is not None)

    def has_place_for(self, rows: Sequence[RowState]) -> bool:
        """Whether these can join without a new layout, and everybody can get one more token."""
        free = self.rows.count(None)
        return len(rows) <= free and all(row.length <= self.end for row in rows) and self.end < self._columns

    def join(self, row: RowState) -> None:
        slot = self.rows.index(None)
        for layer, own in zip(self.layers, _kv_of(row), strict=True):
            for i, array in enumerate(own):
                layer[i][slot : slot + 1, :, self.end - row.length : self.end] = array
        self.rows[slot], row.stack = row, self

    def newest(self, row: RowState, count: int) -> list[list[mx.array]]:
        """The last `count` tokens of a row: keys and values, [1, kv_heads, count, head_dim], of each layer."""
        slot = self.rows.index(row)
        return [[array[slot : slot + 1, :, self.end - count : self.end] for array in layer] for layer in self.layers]

    def free(self, row: RowState) -> None:
        self.rows[self.rows.index(row)] = None

    def visible(self) -> mx.array:
        """Which columns from `start` on each slot sees in this pass, [slots, 1, 1, columns] booleans."""
        first = mx.array([self.end - row.length if row is not None else self.end for row in self.rows])
        return mx.arange(self.start, self.end + 1)[None, None, None] >= first[:, None, None, None]

    def _laid_out(self, arrays: Sequence[mx.array], slots: int) -> mx.array:
        """One array for all slots, of one [1, kv_heads, length, head_dim] a row."""
        _, heads, _, dim = arrays[0].shape
        after = self._columns - self.end
        padded = [mx.pad(each, [(0, 0), (0, 0), (self.end - each.shape[2], after), (0, 0)]) for each in arrays]
        empty = mx.zeros((slots - len(arrays), heads, self._columns, dim), arrays[0].dtype)
        return mx.concatenate([*padded, empty])


class Stacking:
    """Decides which rows of a pass are stacked, and owns the one stack there is."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._stack: Stack | None = None

    @property
    def nbytes(self) -> int:
        return self._stack.nbytes if self._stack is not None else 0

    def layers(self, rows: Sequence[RowState], counts: Sequence[int], offset: mx.array) -> Sequence[PassKV] | None:
        """What stands for mlx-lm's caches in a pass, or None where too few of its rows can be stacked."""
        for row, count in zip(rows, counts, strict=True):
            row.calm_passes = row.calm_passes + 1 if count == 1 else 0
        members = [i for i, row in enumerate(rows) if row.calm_passes > CALM_PASSES and row.length < MAX_TOKENS]
        self._gather([rows[i] for i in members] if len(members) > 1 else [])
        if self._stack is None:
            return None
        return self._layers_of(self._stack, rows, counts, offset)

    def passed(self) -> None:
        """Every row of the stack has got its token."""
        if self._stack is not None:
            self._stack.end += 1

    def release(self, row: RowState) -> None:
        """A row has ended, or goes on by itself."""
        if row.stack is not None:
            row.leave_stack()
            if not self._stacked:
                self._stack = None

    def drop(self) -> None:
        """Give the memory back; rows go on by themselves until they have been calm for a while again."""
        for row in self._stacked:
            row.calm_passes = 0
        self._gather([])

    @property
    def _stacked(self) -> list[RowState]:
        return [row for row in self._stack.rows if row is not None] if self._stack is not None else []

    def _gather(self, members: Sequence[RowState]) -> None:
        """Make the stack one of these rows, if it may be that large."""
        chosen = set(map(id, members))
        for row in self._stacked:
            if id(row) not in chosen:
                self.release(row)
        if not members:
            return
        new = [row for row in members if row.stack is None]
        if self._stack is not None and self._stack.has_place_for(new):
            for row in new:
                self._stack.join(row)
            return
        token_bytes = sum(array.nbytes // array.shape[2] for layer in _kv_of(members[0]) for array in layer)
        longest = max(row.length for row in members)
        if token_bytes * (longest + 2 * _COLUMNS) * (len(members) + _SLOTS) <= self._limit_bytes:
            self._stack = Stack(members)
            return
        self._gather([])
        for row in members:
            row.calm_passes = 0

    @staticmethod
    def _layers_of(stack: Stack, rows: Sequence[RowState], counts: Sequence[int], offset: mx.array) -> Sequence[PassKV]:
        places = _Places.of(stack, rows, counts)
        others = [row for row in rows if row.stack is None]
        counts_of_others = [count for row, count in zip(rows, counts, strict=True) if row.stack is None]
        caches = zip(*(row.caches for row in others), strict=True) if others else [()] * len(stack.layers)
        visible = stack.visible()
        return [
            StackedKV(offset, stack, layer, visible, places, RaggedKV(each, counts_of_others, offset))
            for layer, each in zip(stack.layers, caches, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the tokens of a pass are."""

    of_slots: mx.array
    """The token of each slot, [slots]; of an empty one, any."""
    of_others: mx.array | None
    """The tokens of rows outside the stack; None when there are none."""
    back: mx.array
    """For each token of the pass, its index among slots and then others."""

    @classmethod
    def of(cls, stack: Stack, rows: Sequence[RowState], counts: Sequence[int]) -> _Places:
        begins = [0, *accumulate(counts)]
        slots = {id(row): slot for slot, row in enumerate(stack.rows) if row is not None}
        of_slots = [0] * len(stack.rows)
        of_others: list[int] = []
        back = []
        for row, begin, count in zip(rows, begins, counts, strict=False):
            if row.stack is stack:
                of_slots[slots[id(row)]] = begin
                back.append(slots[id(row)])
            else:
                back.extend(range(len(of_slots) + len(of_others), len(of_slots) + len(of_others) + count))
                of_others.extend(range(begin, begin + count))
        return cls(mx.array(of_slots), mx.array(of_others) if of_others else None, mx.array(back))


@dataclass(slots=True)
class StackedKV(PassKV):
    """One layer of a pass: a stack, and beside it rows that attend by themselves."""

    offset: mx.array
    """Position of every new token in its own row, [tokens]."""
    stack: Stack
    layer: list[mx.array]
    visible: mx.array
    places: _Places
    others: RaggedKV

    def make_mask(self, count: int, **options: Any) -> RaggedMask | None:
        return self.others.make_mask(count, **options)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append [tokens, kv_heads, 1, head_dim]; what is returned only reaches `attend`."""
        end = self.stack.end
        for i, new in enumerate((keys, values)):
            self.layer[i][:, :, end : end + 1] = new[self.places.of_slots]
        if self.places.of_others is not None:
            self.others.update_and_fetch(keys[self.places.of_others], values[self.places.of_others])
        return keys, values

    def attend(self, queries: mx.array, scale: float, mask: RaggedMask | None, sinks: mx.array | None) -> mx.array:
        """[tokens, heads, 1, head_dim] to the same shape."""
        outputs = [self._attend_stacked(queries[self.places.of_slots] * scale, sinks)]
        if self.places.of_others is not None:
            outputs.append(self.others.attend(queries[self.places.of_others], scale, mask, sinks))
        return mx.concatenate(outputs)[self.places.back]

    def _attend_stacked(self, queries: mx.array, sinks: mx.array | None) -> mx.array:
        """[slots, heads, 1, head_dim] scaled queries to the same shape."""
        keys, values = (array[:, :, self.stack.start : self.stack.end + 1] for array in self.layer)
        slots, heads, _, dim = queries.shape
        by_kv_head = queries.reshape(slots, keys.shape[1], -1, dim)
        scores = mx.where(self.visible, by_kv_head @ keys.swapaxes(-1, -2), -mx.inf)
        if sinks is not None:
            of_heads = sinks.astype(scores.dtype).reshape(1, keys.shape[1], -1, 1)
            scores = mx.concatenate([scores, mx.repeat(of_heads, slots, axis=0)], axis=-1)
        weights = softmax(scores)[..., : keys.shape[2]]
        return (weights @ values).reshape(slots, heads, 1, -1)


def _kv_of(row: RowState) -> list[tuple[mx.array, mx.array]]:
    """All of a row's keys and values, [1, kv_heads, length, head_dim], of each layer: from its stack, or its caches."""
    if row.stack is not None:
        return [(keys, values) for keys, values in row.stack.newest(row, row.length)]
    return [whole_kv(cache) for cache in row.caches]


def _rounded(count: int, step: int) -> int:
    return -(-count // step) * step
