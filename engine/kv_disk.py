"""The prefix cache's tier on disk: one file a block, written by a thread of its own, never above its cap.

The step thread asks, reads and queues here; `disk_writer` writes and evicts. Nothing that a disk does reaches the step
thread as an error: a block that cannot be read is a miss, a block that cannot be written is refused and counted.

Uses are wall-clock nanoseconds and the files' modification times, so that their order outlives the process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from .block_files import RawArray
from .block_folder import BlockFolder
from .disk_index import DiskIndex, Entry
from .disk_writer import DiskWriter, Off, QueuedBlock
from .errors import BlockDamaged

QUEUE_BYTES = 256 * 1024 * 1024
CHAIN_STEP_NS = 1000
"""How much earlier than the block before it a block of a chain counts as used."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DiskSnapshot:
    """The tier in numbers: bytes and blocks on disk, bytes queued, and what became of blocks since the start."""

    nbytes: int
    blocks: int
    cap_bytes: int
    queued_bytes: int
    written: int
    refused: int
    damaged: int
    evicted: int
    stale_bytes: int
    """Bytes of other versions that were removed."""
    off: Off | None
    """Why nothing is written at the moment, if nothing is."""


class DiskTier:
    """Blocks in a folder that no other process uses. Methods raise no `OSError` and do not wait for writes.

    Asked by one thread, the step thread; `snapshot` may be asked by any.
    """

    def __init__(
        self,
        folder: Path,
        cap_bytes: int,
        version: str,
        *,
        queue_bytes: int = QUEUE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Lists the folder without opening a file. Blocks of every version but `version` are removed in time.

        `cap_bytes` bounds the files, `queue_bytes` the arrays that wait to be written; `clock` paces tries to write.
        """
        self._folder = BlockFolder(folder, version)
        self._cap_bytes = cap_bytes
        self._changed = threading.Condition()
        self._index = DiskIndex()
        self._damaged = 0
        self._latest_use = 0
        self._writer = DiskWriter(
            self._folder, self._index, self._changed, cap_bytes=cap_bytes, queue_bytes=queue_bytes, clock=clock
        )

    @property
    def found_stale(self) -> bool:
        """Whether blocks of another version lay there at the start."""
        return self._writer.found_stale

    def contains(self, block: bytes) -> bool:
        """Whether `read` would look for it; no use of it."""
        with self._changed:
            return block in self._index or self._writer.queued(block) is not None

    def put(self, block: bytes, parent: bytes, arrays: dict[str, RawArray]) -> bool:
        """Queue a block, those of a chain root first; returns whether it is or will be on disk (False: refused).

        The arrays' memory must not change and must not be MLX's: another thread reads it and lets go of it.
        """
        with self._changed:
            return self.contains(block) or self._writer.put(
                QueuedBlock(block, parent, arrays, used=self._first_use(parent))
            )

    def read(self, block: bytes) -> dict[str, RawArray] | None:
        """A block's arrays, checked, or None. A damaged block is removed. No use of it: see `touch`."""
        with self._changed:
            queued = self._writer.queued(block)
            if queued is not None:
                return queued.arrays
            if block not in self._index:
                return None
        try:
            return self._folder.read(block)
        except (BlockDamaged, OSError) as error:
            self._drop(block, error)
            return None

    def touch(self, chain: Sequence[bytes]) -> None:
        """Count a use of these blocks, given root first: a chain is evicted from its end. Unknown ones are passed over.

        To be called with all that a request hit, in whatever tier, before the blocks that follow are put.
        """
        with self._changed:
            now = self._now()
            for place, block in enumerate(chain):
                entry = self._index.get(block)
                if entry is not None:
                    used = now - place * CHAIN_STEP_NS
                    self._index.put(block, Entry(entry.size, used))
                    self._writer.use(block, used)

    def flush(self, deadline_s: float) -> bool:
        """Wait until all that was queued is written, or cannot be; False at the deadline."""
        return self._writer.flush(deadline_s)

    def close(self) -> None:
        """End the writer after the block it is at; what else is queued is lost unless `flush` came first."""
        self._writer.close()

    def snapshot(self) -> DiskSnapshot:
        with self._changed:
            return DiskSnapshot(
                nbytes=self._index.nbytes,
                blocks=len(self._index),
                cap_bytes=self._cap_bytes,
                queued_bytes=self._writer.queued_bytes,
                written=self._writer.written,
                refused=self._writer.refused,
                damaged=self._damaged,
                evicted=self._writer.evicted,
                stale_bytes=self._writer.stale_bytes,
                off=self._writer.off,
            )

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the files are not those of the index; only while nothing is being written."""
        self._writer.check_integrity()
        found = {each.block: each.size for each in self._folder.blocks()}
        with self._changed:
            assert len(found) == len(self._index), f"{len(found)} files, {len(self._index)} blocks known"
            for block, size in found.items():
                entry = self._index.get(block)
                assert entry is not None and entry.size == size, f"block {block.hex()} is not as it is known: {entry}"

    def _first_use(self, parent: bytes) -> int:
        """Just before that of the block it follows, or now."""
        queued, entry = self._writer.queued(parent), self._index.get(parent)
        if queued is not None:
            return queued.used - CHAIN_STEP_NS
        return entry.used - CHAIN_STEP_NS if entry is not None else self._now()

    def _now(self) -> int:
        """The wall clock's time, but never back: what is used now must not look older than what was."""
        self._latest_use = max(time.time_ns(), self._latest_use + 1)
        return self._latest_use

    def _drop(self, block: bytes, error: Exception) -> None:
        with self._changed:
            if block not in self._index:
                # Evicted between the question and the reading.
                return
            self._index.remove(block)
            self._damaged += 1
        log.warning("kv_block_damaged", error=str(error))
        # One that cannot be removed is found, and tried, again when the folder is next looked at.
        with contextlib.suppress(OSError):
            self._folder.remove(block)
