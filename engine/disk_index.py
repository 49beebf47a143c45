"""Blocks on disk with their sizes, and which of them was used least recently: pure bookkeeping, no files.

A block's use is a number that its owner chooses; the smallest goes first. Owners give the blocks of one chain uses
that fall from its root to its end, because a block is of no use without those before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """Size of a block's file in bytes, and when it was last used."""

    size: int
    used: int


class DiskIndex:
    """What lies in the folder."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}
        self._order: list[tuple[int, bytes]] = []
        """A heap; an entry whose block has gone or was used since is skipped when it comes up."""
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, block: bytes) -> bool:
        return block in self._entries

    def get(self, block: bytes) -> Entry | None:
        return self._entries.get(block)

    def put(self, block: bytes, entry: Entry) -> None:
        """Add a block, or replace what is known of it."""
        self.remove(block)
        self._entries[block] = entry
        self._nbytes += entry.size
        heapq.heappush(self._order, (entry.used, block))
        if len(self._order) > 2 * len(self._entries) + 64:
            self._sort()

    def reset(self, entries: Mapping[bytes, Entry]) -> None:
        """Hold these and nothing else."""
        self._entries = dict(entries)
        self._nbytes = sum(entry.size for entry in entries.values())
        self._sort()

    def remove(self, block: bytes) -> None:
        """Forget a block, if it is here."""
        entry = self._entries.pop(block, None)
        if entry is not None:
            self._nbytes -= entry.size

    def least_recent(self) -> tuple[bytes, Entry] | None:
        """The block to evict next, if there is any."""
        while self._order:
            used, block = self._order[0]
            entry = self._entries.get(block)
            if entry is not None and entry.used == used:
                return block, entry
            heapq.heappop(self._order)
        return None

    def _sort(self) -> None:
        self._order = [(entry.used, block) for block, entry in self._entries.items()]
        heapq.heapify(self._order)
