"""The prefix cache's identities and its tier in RAM: which KV is known for which tokens, without touching any KV.

A sequence is cut into blocks of `block_tokens` tokens. A block's hash covers its own tokens and the hash before it, so
one hash stands for everything from the first token of the sequence to the last of the block, and for the model that
computed it. In RAM, a *segment* is the KV that one request computed, as it lies: it holds consecutive blocks of one
chain and costs no copy. A segment is the unit of memory; a block is a place inside it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HASH_BYTES = 16


def root_hash(*, model: str, mlx_lm: str, caches: Sequence[str], block_tokens: int, kv: str) -> bytes:
    """The hash before the first block: KV is only ever used by the very configuration that computed it.

    `model` is a fingerprint of the weights, `mlx_lm` that library's version (its cache layout changes with it),
    `caches` the class of each layer's cache, `kv` the data type or quantization of keys and values.
    """
    identity = json.dumps([model, mlx_lm, list(caches), block_tokens, kv])
    return hashlib.blake2b(identity.encode(), digest_size=HASH_BYTES).digest()


def chain(root: bytes, tokens: Sequence[int], block_tokens: int) -> list[bytes]:
    """The hash of every full block of `tokens`, in order; tokens after the last full block have none."""
    count = len(tokens) // block_tokens * block_tokens
    data = struct.pack(f"<{count}I", *tokens[:count])
    hashes, parent = [], root
    for start in range(0, len(data), 4 * block_tokens):
        parent = hashlib.blake2b(parent + data[start : start + 4 * block_tokens], digest_size=HASH_BYTES).digest()
        hashes.append(parent)
    return hashes


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """KV of consecutive blocks of one chain. Two segments are never equal, even with the same blocks."""

    payload: object
    """The keys and values; opaque here."""
    nbytes: int
    parent: bytes
    """The hash before the first block: the root, or a block that another segment holds."""
    blocks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """`block_count` blocks of a segment, from its block `first_block` on."""

    segment: Segment
    first_block: int
    block_count: int


@dataclass(frozen=True, slots=True)
class RamSnapshot:
    """The tier in numbers. `pinned_bytes` are part of `nbytes`; `evicted_blocks` counts since the start."""

    nbytes: int
    pinned_bytes: int
    segments: int
    blocks: int
    evicted_blocks: int


class RamTier:
    """Segments by the blocks they hold, least recently used first. Used from one thread only.

    A segment's memory is free once no lookup can find it and nobody has it pinned. Whenever that becomes true, the
    segment is in what the method returns, and the caller drops it.
    """

    def __init__(self, on_evicted: Callable[[bytes], None]) -> None:
        """`on_evicted` hears each block that is held no longer because room was made."""
        self._on_evicted = on_evicted
        self._segments: OrderedDict[Segment, None] = OrderedDict()
        self._holders: dict[bytes, dict[Segment, int]] = {}
        self._pins: dict[Segment, int] = {}
        self._nbytes = 0
        self.evicted_blocks = 0
        """Since the start."""

    @property
    def nbytes(self) -> int:
        """Bytes of every segment whose memory is not free, pinned ones that no lookup can find included."""
        return self._nbytes

    @property
    def pinned_nbytes(self) -> int:
        """Of them, those that are pinned."""
        return sum(segment.nbytes for segment in self._pins)

    @property
    def segments(self) -> int:
        """Those that a lookup can find."""
        return len(self._segments)

    def pinned_blocks(self, hashes: Sequence[bytes]) -> int:
        """How many blocks from the first are in pinned memory; no use of them."""
        pinned = (any(held in self._pins for held in self._holders.get(block, ())) for block in hashes)
        return next((count for count, is_pinned in enumerate(pinned) if not is_pinned), len(hashes))

    def contains(self, block: bytes) -> bool:
        """Whether a lookup that reaches this block would find it; no use of it."""
        return block in self._holders

    def insert(self, segment: Segment) -> list[Segment]:
        """Take a segment in, as the most recently used; returns the segments whose memory is free now.

        That is `segment` itself when each of its blocks is held already, or older ones that it holds every block of
        (a conversation's next turn has all of the turn before).
        """
        assert segment not in self._segments and segment not in self._pins, "this segment is already here"
        if all(block in self._holders for block in segment.blocks):
            self.lookup(segment.blocks)
            return [segment]
        return self.supersede(segment)

    def supersede(self, segment: Segment) -> list[Segment]:
        """As `insert`, but take it in even if each of its blocks is held already: it joins what lay apart."""
        replaced = self._within(segment)
        self._segments[segment] = None
        self._nbytes += segment.nbytes
        for index, block in enumerate(segment.blocks):
            self._holders.setdefault(block, {})[segment] = index
        self._use_ancestors(segment)
        return [old for old in replaced if self._withdraw(old)]

    def lookup(self, hashes: Sequence[bytes]) -> list[Run]:
        """The longest known prefix of `hashes`, in as few runs as there can be; counts as use of their segments."""
        runs: list[Run] = []
        at = 0
        while at < len(hashes) and (holders := self._holders.get(hashes[at])):
            options = (Run(held, first, _shared(held.blocks, first, hashes, at)) for held, first in holders.items())
            run = max(options, key=lambda option: option.block_count)
            runs.append(run)
            at += run.block_count
        # Later blocks are useless without the earlier ones, so those must outlive them: they are used last.
        for run in reversed(runs):
            self._segments.move_to_end(run.segment)
        if runs:
            self._use_ancestors(runs[0].segment)
        return runs

    def pin(self, segment: Segment) -> None:
        """Keep a segment's memory, whatever happens to it here, until the same number of `unpin`."""
        assert segment in self._segments or segment in self._pins, "this segment is not here"
        self._pins[segment] = self._pins.get(segment, 0) + 1

    def unpin(self, segment: Segment) -> list[Segment]:
        """Undo one `pin`; returns the segment if its memory is free now."""
        self._pins[segment] -= 1
        if self._pins[segment]:
            return []
        del self._pins[segment]
        return [] if segment in self._segments else self._freed(segment)

    def evict_to(self, budget_bytes: int) -> list[Segment]:
        """Withdraw segments until `nbytes` is within the budget, the least recently used first; returns them.

        Pinned ones stay, so that `nbytes` may still be above the budget.
        """
        freed: list[Segment] = []
        for segment in list(self._segments):
            if self._nbytes <= budget_bytes:
                break
            if segment not in self._pins:
                self._withdraw(segment)
                freed.append(segment)
        return freed

    def snapshot(self) -> RamSnapshot:
        return RamSnapshot(
            self._nbytes, self.pinned_nbytes, len(self._segments), len(self._holders), self.evicted_blocks
        )

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the index, the segments and the bytes contradict each other."""
        for segment in self._segments:
            for index, block in enumerate(segment.blocks):
                assert self._holders[block][segment] == index, f"block {block.hex()} is not where its segment has it"
        held = sum(len(segment.blocks) for segment in self._segments)
        assert sum(map(len, self._holders.values())) == held, "the index has blocks of segments that left"
        assert all(self._holders.values()), "the index has blocks that nobody holds"
        nbytes = sum(segment.nbytes for segment in self._segments.keys() | self._pins.keys())
        assert self._nbytes == nbytes, f"{self._nbytes} bytes counted, {nbytes} held"

    def _within(self, segment: Segment) -> list[Segment]:
        """Segments that hold nothing which `segment` does not hold."""
        own = set(segment.blocks)
        near = {held for block in segment.blocks for held in self._holders.get(block, ())}
        return [held for held in self._segments if held in near and own.issuperset(held.blocks)]

    def _use_ancestors(self, segment: Segment) -> None:
        """Use what the segment continues, so that it outlives the segment."""
        parent = segment.parent
        while holders := self._holders.get(parent):
            ancestor = next(iter(holders))
            self._segments.move_to_end(ancestor)
            parent = ancestor.parent

    def _withdraw(self, segment: Segment) -> list[Segment]:
        """Let no lookup find a segment any more; returns it if its memory is free."""
        del self._segments[segment]
        for block in segment.blocks:
            holders = self._holders[block]
            del holders[segment]
            if not holders:
                del self._holders[block]
                self.evicted_blocks += 1
                self._on_evicted(block)
        return [] if segment in self._pins else self._freed(segment)

    def _freed(self, segment: Segment) -> list[Segment]:
        self._nbytes -= segment.nbytes
        return [segment]


def _shared(held: Sequence[bytes], first: int, hashes: Sequence[bytes], at: int) -> int:
    """How many blocks the two have in common from these indices on."""
    count = 0
    for ours, theirs in zip(held[first:], hashes[at:], strict=False):
        if ours != theirs:
            break
        count += 1
    return count
