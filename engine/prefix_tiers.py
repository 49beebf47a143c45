"""RAM and disk as one place where the beginning of a sequence is found: blocks of KV, and checkpoints beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .batch import TierSize
from .blocks import RamTier, Run, Segment
from .checkpoint_store import CheckpointStore, FoundCheckpoint
from .kv_arrays import Prefix, Quantization
from .kv_disk import DiskTier
from .prefix_blocks import BLOCK_TOKENS, blocks_of, kept, prefix_from, segment_of
from .protocol import Tier


@dataclass(frozen=True, slots=True)
class Hit:
    """What of a sequence can be used: KV of its first blocks, and the checkpoint at their end where one is needed."""

    runs: list[Run]
    from_disk: int = 0
    """How many of the blocks were on disk only."""
    checkpoint: FoundCheckpoint | None = None

    @property
    def blocks(self) -> int:
        return sum(run.block_count for run in self.runs)

    @property
    def tier(self) -> Tier | None:
        """The slower one that any of it came from."""
        if not self.runs:
            return None
        slow = self.from_disk > 0 or (self.checkpoint is not None and self.checkpoint.tier is Tier.DISK)
        return Tier.DISK if slow else Tier.RAM


class PrefixTiers:
    """Chains of blocks by their hashes. Step thread only."""

    def __init__(
        self,
        root: bytes,
        disk: DiskTier | None,
        *,
        needs_checkpoints: bool,
        quantization: Quantization | None,
        on_evicted: Callable[[bytes], None],
    ) -> None:
        """`quantization` is that of the KV which is kept here."""
        self.ram = RamTier(on_evicted)
        self.disk = disk
        self.checkpoints = CheckpointStore(self.ram, disk) if needs_checkpoints else None
        self._root = root
        self._quantization = quantization

    def known(self, hashes: Sequence[bytes]) -> int:
        """How many of the first blocks are in RAM or on disk."""
        return next((i for i, block in enumerate(hashes) if not self._knows(block)), len(hashes))

    def find(self, hashes: Sequence[bytes]) -> Hit:
        """The longest beginning that can be used; what was on disk is in RAM then."""
        if self.checkpoints is None:
            return self._read(hashes)
        end = len(hashes)
        while (checkpoint := self.checkpoints.latest(hashes[: self.known(hashes[:end])])) is not None:
            hit = self._read(hashes[: checkpoint.blocks])
            if hit.blocks == checkpoint.blocks:
                return Hit(hit.runs, hit.from_disk, checkpoint)
            # A block could not be read, so that this checkpoint has lost what goes with it.
            end = hit.blocks
        return Hit([])

    def join(self, runs: Sequence[Run]) -> Run:
        """One segment of several runs' blocks; it takes the place of those that it holds whole."""
        blocks = [block for run in runs for block in run.segment.blocks[run.first_block :][: run.block_count]]
        first = runs[0]
        parent = first.segment.blocks[first.first_block - 1] if first.first_block else first.segment.parent
        segment = segment_of(Prefix.joined([kept(run) for run in runs]), parent, blocks)
        self.ram.supersede(segment)
        return Run(segment, 0, len(blocks))

    def write(self, hashes: Sequence[bytes], prefix: Prefix, first: int, on_disk: int) -> int:
        """Queue those of a prefix's blocks that come next on disk, where `on_disk` are; it begins with block `first`.

        Returns how many are there then. Stops at a refusal: a block whose parent is not there is never found again.
        """
        skipped, count = on_disk - first, prefix.tokens // BLOCK_TOKENS
        if self.disk is None or not 0 <= skipped < count:
            return on_disk
        for arrays in blocks_of(prefix.piece(skipped * BLOCK_TOKENS, (count - skipped) * BLOCK_TOKENS)):
            parent = hashes[on_disk - 1] if on_disk else self._root
            if not self.disk.put(hashes[on_disk], parent, arrays):
                break
            on_disk += 1
        return on_disk

    def sizes(self) -> dict[Tier, TierSize]:
        """What each tier holds now."""
        ram = {Tier.RAM: TierSize(self.ram.nbytes, self.ram.evicted_blocks)}
        if self.disk is None:
            return ram
        disk = self.disk.snapshot()
        return ram | {Tier.DISK: TierSize(disk.nbytes, disk.evicted)}

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the tiers contradict themselves."""
        self.ram.check_integrity()
        if self.disk is not None and self.disk.flush(0):
            self.disk.check_integrity()

    def close(self, deadline_s: float) -> None:
        """Write what is queued, for so long at most."""
        if self.disk is not None:
            self.disk.flush(deadline_s)
            self.disk.close()

    def _knows(self, block: bytes) -> bool:
        return self.ram.contains(block) or (self.disk is not None and self.disk.contains(block))

    def _read(self, hashes: Sequence[bytes]) -> Hit:
        runs = self.ram.lookup(hashes)
        loaded = self._load(hashes, sum(run.block_count for run in runs))
        if loaded is None:
            return Hit(runs)
        return Hit([*runs, Run(loaded, 0, len(loaded.blocks))], from_disk=len(loaded.blocks))

    def _load(self, hashes: Sequence[bytes], known: int) -> Segment | None:
        """The blocks that follow the first `known` on disk, as a segment in RAM."""
        if self.disk is None:
            return None
        found = []
        for block in hashes[known:]:
            arrays = self.disk.read(block) if self.disk.contains(block) else None
            if arrays is None:
                break
            found.append(arrays)
        if not found:
            return None
        parent = hashes[known - 1] if known else self._root
        segment = segment_of(prefix_from(found, self._quantization), parent, hashes[known : known + len(found)])
        self.ram.insert(segment)
        return segment
