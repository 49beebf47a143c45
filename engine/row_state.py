"""What a model remembers of one row: KV that grows by a token a token, and state that each token replaces.

KV of any number of first tokens is a slice of what is there. A sliding window has lost its older tokens, and recurrent
state holds all of them mixed, so neither can be taken back: what they were after some token is only known from a
checkpoint that was made there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, QuantizedKVCache, RotatingKVCache

from .checkpoints import CheckpointPlan

STATE_CACHES = (RotatingKVCache, ArraysCache)
"""mlx-lm's cache classes that checkpoints know how to save."""


def leaves(caches: Sequence[Any]) -> Iterator[Any]:
    """The caches, those inside mlx-lm's lists included, in order."""
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from leaves(cache.caches)
        else:
            yield cache


def mapped(caches: Sequence[Any], change: Callable[[Any], Any]) -> list[Any]:
    """The same caches with every leaf changed."""
    return [
        CacheList(*mapped(cache.caches, change)) if isinstance(cache, CacheList) else change(cache) for cache in caches
    ]


def keeps_kv(leaf: Any) -> bool:
    """Whether a cache holds keys and values of every token."""
    return isinstance(leaf, KVCache | QuantizedKVCache)


def kv_leaves(caches: Sequence[Any]) -> list[Any]:
    return [leaf for leaf in leaves(caches) if keeps_kv(leaf)]


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Windows and recurrent state of a row after its first `tokens` tokens; immutable."""

    tokens: int
    arrays: dict[str, mx.array]
    """By `<leaf>.<place in it>`."""

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @classmethod
    def of(cls, caches: Sequence[Any], tokens: int) -> Checkpoint:
        """Lazily, of a row's caches as they are now."""
        arrays: dict[str, mx.array] = {}
        for index, leaf in enumerate(leaves(caches)):
            # Copies: a row's own array may be a view of the whole batch's.
            arrays |= {f"{index}.{place}": mx.contiguous(array) for place, array in _saved(leaf)}
        return cls(tokens, arrays)

    def restore(self, caches: Sequence[Any]) -> None:
        """Bring a new row's caches to where this was made; KV is not touched."""
        for index, leaf in enumerate(leaves(caches)):
            prefix = f"{index}."
            # New objects: mlx-lm's windows are written in place.
            own = {
                int(name.removeprefix(prefix)): mx.contiguous(array)
                for name, array in self.arrays.items()
                if name.startswith(prefix)
            }
            if isinstance(leaf, RotatingKVCache):
                leaf.keys, leaf.values = own[0], own[1]
                leaf.offset, leaf._idx = self.tokens, own[0].shape[2]
            elif isinstance(leaf, ArraysCache):
                for place, array in own.items():
                    leaf[place] = array


def _saved(leaf: Any) -> list[tuple[int, mx.array]]:
    """A leaf's arrays with their places: a window's keys and values oldest first, or the recurrent state."""
    if isinstance(leaf, RotatingKVCache):
        ordered = [leaf._temporal_order(array) for array in (leaf.keys, leaf.values)]
        # Beside a long piece of a prompt, a window holds more than its size.
        excess = max(ordered[0].shape[2] - leaf.max_size, 0)
        return list(enumerate(leaf._trim(excess, array) for array in ordered))
    if isinstance(leaf, ArraysCache):
        return [(place, array) for place, array in enumerate(leaf.cache) if array is not None]
    return []


class Stack(Protocol):
    """Where rows may have their newest tokens (`row_stack.Stack`)."""

    def newest(self, row: RowState, count: int) -> list[list[mx.array]]: ...

    def free(self, row: RowState) -> None: ...


@dataclass(slots=True, eq=False)
class RowState:
    """One row: a cache a layer, holding `length` tokens, the first `shared` of them in parts that others may read."""

    kept: list[Any]
    """Its caches, without the last `behind` tokens."""
    length: int = 0
    shared: int = 0
    stack: Stack | None = None
    behind: int = 0
    """How many of the newest tokens are in the stack alone."""
    calm_passes: int = 0
    """For how many passes it has got one token in each."""
    plan: CheckpointPlan | None = None
    """Where checkpoints are made on the way; None for models that need none, or when nobody keeps them."""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    """Those made and not yet taken away."""

    @property
    def caches(self) -> list[Any]:
        """With all of its tokens."""
        self._catch_up()
        return self.kept

    @caches.setter
    def caches(self, caches: list[Any]) -> None:
        self.kept = caches

    def leave_stack(self) -> None:
        """Go on with its own caches."""
        if self.stack is not None:
            self._catch_up()
            self.stack.free(self)
            self.stack = None

    def _catch_up(self) -> None:
        if not self.behind:
            return
        assert self.stack is not None, "behind nothing"
        for cache, (keys, values) in zip(self.kept, self.stack.newest(self, self.behind), strict=True):
            cache.update_and_fetch(keys, values)
        self.behind = 0
        # Now: what waits to be computed would hold the stack's arrays, which could then not be written in place.
        mx.eval([(cache.keys, cache.values) for cache in self.kept])

    @property
    def next_stop(self) -> int | None:
        """The next length at which a checkpoint is to be made."""
        return self.plan.next_after(self.length) if self.plan is not None else None

    @property
    def nbytes(self) -> int:
        """Bytes of what is this row's own."""
        own: int = sum(cache.nbytes for cache in self.kept)
        return own + sum(checkpoint.nbytes for checkpoint in self.checkpoints)

    def advance(self, count: int) -> None:
        """`count` tokens were appended."""
        stop = self.next_stop
        self.length += count
        if self.stack is not None:
            self.behind += count
        if stop == self.length:
            self.checkpoints.append(Checkpoint.of(self.caches, self.length))
