"""The thread that writes, evicts and cleans up the prefix cache's folder, and decides when to leave it alone.

It is the only one that adds files, so the cap is kept here: room is made before a block is written. After any failure
writing is *off* for a while; the next try is made by the next block that comes, and begins by looking at the folder
anew, so that nothing has to be known about how far the failure went.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from .block_files import RawArray
from .block_folder import BlockFolder
from .disk_index import DiskIndex, Entry

RETRY_FIRST_S = 5.0
RETRY_MAX_S = 300.0
CLOSE_DEADLINE_S = 5.0
_NICENESS = 10

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QueuedBlock:
    """A block on its way to the disk; `used` is the use it begins with."""

    block: bytes
    parent: bytes
    arrays: dict[str, RawArray]
    used: int

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True, slots=True)
class Off:
    """Writing has stopped: since when and why, and when a block is taken again. Times are those of the tier's clock."""

    since: float
    why: str
    retry_after_s: float
    retry_at: float


class DiskWriter:
    """The queue and its thread. `changed` guards the index and everything here; files are touched outside it."""

    def __init__(
        self,
        folder: BlockFolder,
        index: DiskIndex,
        changed: threading.Condition,
        *,
        cap_bytes: int,
        queue_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        """Fills the index from the folder's listing, then starts the thread."""
        self._folder = folder
        self._index = index
        self._changed = changed
        self._cap_bytes = cap_bytes
        self._queue_bytes = queue_bytes
        self._clock = clock
        self._queue: dict[bytes, QueuedBlock] = {}
        self._uses: dict[bytes, int] = {}
        self._clean = False
        self._closed = False
        self.off: Off | None = None
        self.queued_bytes = 0
        self.written = self.refused = self.evicted = self.stale_bytes = 0
        self.found_stale = False
        self._attempt(self._look)
        self._thread = threading.Thread(target=self._run, name="kv-disk-writer", daemon=True)
        self._thread.start()

    def queued(self, block: bytes) -> QueuedBlock | None:
        """A block that is not, or not yet wholly, on disk."""
        return self._queue.get(block)

    def put(self, queued: QueuedBlock) -> bool:
        """Queue a block, unless there is no room for it or writing is off."""
        with self._changed:
            if not self._takes(queued.nbytes):
                self.refused += 1
                return False
            self._queue[queued.block] = queued
            self.queued_bytes += queued.nbytes
            self._changed.notify_all()
            return True

    def use(self, block: bytes, used: int) -> None:
        """Keep this use in the block's file, sooner or later; not while writing is off."""
        with self._changed:
            if self.off is None and not self._closed:
                self._uses[block] = used
                self._changed.notify_all()

    def flush(self, deadline_s: float) -> bool:
        """Wait until all that was queued is written, or cannot be; False at the deadline."""
        with self._changed:
            return self._changed.wait_for(self._idle, deadline_s)

    def close(self) -> None:
        """Drop the queue and end the thread after the block it is at."""
        with self._changed:
            self._closed = True
            self._drop_queue()
            self._changed.notify_all()
        self._thread.join(CLOSE_DEADLINE_S)

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the queue's bytes or the cap are not kept."""
        with self._changed:
            queued = sum(each.nbytes for each in self._queue.values())
            assert self.queued_bytes == queued, f"{self.queued_bytes} bytes counted in the queue, {queued} are there"
            held = self._index.nbytes
            assert held <= self._cap_bytes or not self._clean, f"{held} bytes on disk, the cap is {self._cap_bytes}"

    def _takes(self, nbytes: int) -> bool:
        if self._closed or (self.off is not None and self._clock() < self.off.retry_at):
            return False
        return nbytes <= self._cap_bytes and self.queued_bytes + nbytes <= self._queue_bytes

    def _idle(self) -> bool:
        return not self._queue and not self._uses and (self._clean or self.off is not None)

    def _run(self) -> None:
        if sys.platform == "linux":
            # A thread has a priority of its own there, and steps go first.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        if self.off is None:
            self._attempt(self._clean_up)
        while self._wait():
            self._attempt(self._work)

    def _wait(self) -> bool:
        """Sleep until there is something to do; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._queue or self._uses)
            return not self._closed

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Mostly an OSError; whatever it was, reading goes on, and the next try begins with a look at the folder.
            self._turn_off(f"{type(error).__name__}: {error}")

    def _work(self) -> None:
        if not self._clean:
            self._look()
            self._clean_up()
        self._keep_uses()
        self._write_first()

    def _look(self) -> None:
        """Take the folder's word for what it holds, and the younger word for each block's use."""
        self.found_stale = self.found_stale or self._folder.has_stale()
        found = list(self._folder.blocks())
        now = time.time_ns()
        with self._changed:
            entries = {}
            for each in found:
                known = self._index.get(each.block)
                # A clock that once ran ahead must not make blocks immortal.
                used = max(min(each.modified_ns, now), known.used if known is not None else 0)
                entries[each.block] = Entry(each.size, used)
            self._index.reset(entries)

    def _clean_up(self) -> None:
        """Make the folder fit to write in: no leftovers, no other versions, nothing above the cap."""
        self._folder.make()
        self._folder.remove_leftovers()
        for size in self._folder.remove_stale():
            self.stale_bytes += size
            if self._closed:
                return
        self._make_room(0, before=math.inf)
        with self._changed:
            self._clean = True
            self._changed.notify_all()

    def _keep_uses(self) -> None:
        with self._changed:
            uses = dict(self._uses)
        for block, used in uses.items():
            self._folder.use(block, used)
        with self._changed:
            for block, used in uses.items():
                if self._uses.get(block) == used:
                    del self._uses[block]
            self._changed.notify_all()

    def _write_first(self) -> None:
        with self._changed:
            queued = next(iter(self._queue.values()), None)
        if queued is None:
            return
        pieces = self._folder.encode(queued.block, queued.parent, queued.arrays)
        size = sum(map(len, pieces))
        if not self._make_room(size, before=queued.used):
            with self._changed:
                self._leave_queue(queued)
                self.refused += 1
            return
        self._folder.write(queued.block, pieces, queued.used)
        with self._changed:
            self._leave_queue(queued)
            self._index.put(queued.block, Entry(size, queued.used))
            self.written += 1
            off, self.off = self.off, None
        if off is not None:
            log.info("kv_disk_on", off_for_s=self._clock() - off.since)

    def _leave_queue(self, queued: QueuedBlock) -> None:
        if self._queue.pop(queued.block, None) is not None:
            self.queued_bytes -= queued.nbytes
        self._changed.notify_all()

    def _make_room(self, nbytes: int, before: float) -> bool:
        """Evict blocks last used `before` until so many more bytes are within the cap; False when they do not suffice.

        So a chain that is larger than the cap stops growing, instead of losing its last block to each next one.
        """
        while True:
            with self._changed:
                if self._index.nbytes + nbytes <= self._cap_bytes:
                    return True
                oldest = self._index.least_recent()
                if oldest is None or oldest[1].used >= before:
                    return False
                block, _ = oldest
                self._index.remove(block)
            self._folder.remove(block)
            self.evicted += 1

    def _turn_off(self, why: str) -> None:
        with self._changed:
            now, before = self._clock(), self.off
            wait_s = RETRY_FIRST_S if before is None else min(2 * before.retry_after_s, RETRY_MAX_S)
            self.off = Off(now if before is None else before.since, why, wait_s, now + wait_s)
            self._clean = False
            self._drop_queue()
            self._changed.notify_all()
        # Outside the lock, for which the step thread may wait: a log can block, or fail as the disk did.
        if before is None:
            log.warning("kv_disk_off", why=why)

    def _drop_queue(self) -> None:
        self.refused += len(self._queue)
        self._queue.clear()
        self._uses.clear()
        self.queued_bytes = 0
