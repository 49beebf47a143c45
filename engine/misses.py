"""Why a prompt was not in the prefix cache: each miss gets one reason that a person can act on.

- `too_short`: less than one block, which is never kept;
- `evicted`: the next block was there, and room was made;
- `diverged`: the prompt equals a known sequence up to a token inside the next block, and then differs;
- `version`: as cold, but KV of another version lay on disk and could not be used;
- `cold`: nothing that goes on like this was ever kept.

`not_trimmable` is for whoever holds the KV to say: it is a matter of the model's caches, not of blocks.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .protocol import MissReason

EVICTED_BLOCKS = 32768
"""Blocks remembered as evicted: two million tokens of 64-token blocks in a few megabytes."""
SEQUENCES = 64
"""Sequences remembered, to say where a new one departs from them."""
REALIGN_AFTER = (64, 256, 1024)
REALIGN_TOKENS = 32
"""Two prompts that differ within their first block are the same prompt, changed, if this many tokens at one of these
distances behind the difference are in both. The start that a chat template gives to every prompt proves nothing."""


@dataclass(frozen=True, slots=True)
class Miss:
    """`diverged_at` is the index of the first token that differs; None for every other reason."""

    reason: MissReason
    diverged_at: int | None = None


class MissHistory:
    """What was evicted and what was asked lately, both bounded. Used from one thread only.

    `found_stale` says that the disk held KV of another version at the start: until the first hit, what would be
    `cold` is `version`.
    """

    def __init__(self, block_tokens: int, found_stale: bool = False) -> None:
        self._block_tokens = block_tokens
        self._cold = MissReason.VERSION if found_stale else MissReason.COLD
        self._evicted: OrderedDict[bytes, None] = OrderedDict()
        self._sequences: deque[bytes] = deque(maxlen=SEQUENCES)

    def evicted(self, block: bytes) -> None:
        """A block left RAM because room was made. While it is still on disk it is a hit, and nobody asks."""
        self._evicted[block] = None
        self._evicted.move_to_end(block)
        if len(self._evicted) > EVICTED_BLOCKS:
            self._evicted.popitem(last=False)

    def remember(self, tokens: Sequence[int]) -> None:
        """A sequence whose KV is kept from now on; it takes the place of those that it continues."""
        data = _packed(tokens)
        others = [known for known in self._sequences if not data.startswith(known)]
        self._sequences = deque([*others, data], maxlen=SEQUENCES)

    def explain(self, tokens: Sequence[int], hashes: Sequence[bytes], hit_blocks: int) -> Miss | None:
        """Why the first `hit_blocks` of `hashes` (the chain of `tokens`) were found and no more; None if all were."""
        if not hashes:
            return Miss(MissReason.TOO_SHORT)
        if hit_blocks:
            self._cold = MissReason.COLD
        if hit_blocks == len(hashes):
            return None
        if hashes[hit_blocks] in self._evicted:
            return Miss(MissReason.EVICTED)
        diverged_at = self._divergence(_packed(tokens))
        # A difference in another block than the one that is missing explains nothing.
        if diverged_at is not None and diverged_at // self._block_tokens == hit_blocks:
            return Miss(MissReason.DIVERGED, diverged_at)
        return Miss(self._cold)

    def _divergence(self, data: bytes) -> int | None:
        """Index of the first token that differs from the most similar known sequence, or None if none is similar."""
        shared = [(_shared_tokens(data, known), known) for known in reversed(self._sequences)]
        differing = [(count, known) for count, known in shared if 4 * count < min(len(data), len(known))]
        most = max((count for count, _ in differing), default=0)
        if most >= self._block_tokens:
            return most
        return next((count for count, known in differing if _realigns(data, known, count)), None)


def _packed(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def _shared_tokens(one: bytes, other: bytes) -> int:
    """Length of the common start of two packed sequences, by halving: `bytes` compare at memory speed."""
    low, high = 0, min(len(one), len(other)) // 4
    while low < high:
        middle = (low + high + 1) // 2
        if one[4 * low : 4 * middle] == other[4 * low : 4 * middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _realigns(data: bytes, known: bytes, differs_at: int) -> bool:
    return any(window in data for window in _windows(known, differs_at))


def _windows(known: bytes, differs_at: int) -> Iterator[bytes]:
    for distance in REALIGN_AFTER:
        window = known[4 * (differs_at + distance) :][: 4 * REALIGN_TOKENS]
        if len(window) == 4 * REALIGN_TOKENS:
            yield window
