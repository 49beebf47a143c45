"""Checkpoints of rows beside the blocks they belong to, in the same two tiers and under the same budgets.

A checkpoint is one more block that follows the block at whose end it was made, under a hash of its own. So it is
evicted, pinned, checked and counted as blocks are, and what it needs is used before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from .blocks import HASH_BYTES, RamTier, Run, Segment
from .kv_disk import DiskTier
from .prefix_blocks import BLOCK_TOKENS
from .protocol import Tier
from .raw_arrays import array_of, raw
from .row_state import Checkpoint


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint at the end of the `blocks`-th block of a sequence, and where it was."""

    blocks: int
    checkpoint: Checkpoint
    tier: Tier


class CheckpointStore:
    """Over the tiers of a prefix cache. Step thread only."""

    def __init__(self, ram: RamTier, disk: DiskTier | None) -> None:
        self._ram = ram
        self._disk = disk

    def latest(self, hashes: Sequence[bytes]) -> FoundCheckpoint | None:
        """The last one at the end of any of these blocks."""
        for blocks in range(len(hashes), 0, -1):
            found = self._find(hashes[blocks - 1], blocks)
            if found is not None:
                return found
        return None

    def keep(self, block: bytes, checkpoint: Checkpoint) -> None:
        """Hold it in RAM, and on disk if the block that it follows is there."""
        name = _name(block)
        if not self._ram.contains(name):
            self._ram.insert(Segment(checkpoint, checkpoint.nbytes, block, (name,)))
        self._write(block, checkpoint)

    def use(self, chain: Sequence[bytes], checkpoint: Checkpoint) -> None:
        """It was hit, at the end of this chain: count that on disk, and write again what the disk has lost."""
        if self._disk is not None:
            self._disk.touch([*chain, _name(chain[-1])])
            self._write(chain[-1], checkpoint)

    def _write(self, block: bytes, checkpoint: Checkpoint) -> None:
        name = _name(block)
        if self._disk is not None and self._disk.contains(block) and not self._disk.contains(name):
            self._disk.put(name, block, {key: raw(array) for key, array in checkpoint.arrays.items()})

    def _find(self, block: bytes, blocks: int) -> FoundCheckpoint | None:
        name = _name(block)
        runs = self._ram.lookup([name])
        if runs:
            return FoundCheckpoint(blocks, _payload(runs[0]), Tier.RAM)
        arrays = self._disk.read(name) if self._disk is not None and self._disk.contains(name) else None
        if arrays is None:
            return None
        checkpoint = Checkpoint(blocks * BLOCK_TOKENS, {key: array_of(each) for key, each in arrays.items()})
        mx.eval(list(checkpoint.arrays.values()))
        self._ram.insert(Segment(checkpoint, checkpoint.nbytes, block, (name,)))
        return FoundCheckpoint(blocks, checkpoint, Tier.DISK)


def _name(block: bytes) -> bytes:
    return hashlib.blake2b(b"checkpoint" + block, digest_size=HASH_BYTES).digest()


def _payload(run: Run) -> Checkpoint:
    assert isinstance(run.segment.payload, Checkpoint)
    return run.segment.payload
