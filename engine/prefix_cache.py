"""The prefix cache over MLX: rows begin with KV that is known in RAM or on disk, and leave theirs behind.

A row's KV lies in shared parts and a tail (`ragged_attention`). When its prompt is computed, and again when it ends,
the full blocks of its tail become a segment that others find; the row itself reads the segment from then on, so that
rows with a common beginning share one memory. Each block also goes to the disk tier, while the row is still running:
an engine that dies takes little of it along. Step thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from .batch import Found, TierSize
from .block_files import RawArray
from .blocks import RamTier, Run, Segment, chain
from .kv_disk import DiskTier
from .misses import MissHistory
from .protocol import Tier
from .ragged import RaggedModel, RowState
from .ragged_attention import Prefix, SharedPart

BLOCK_TOKENS = 64
MAX_SHARED_PARTS = 2
"""A row begins with at most so many parts; more are copied together, since each costs its own products a step."""

_DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


@dataclass(slots=True)
class Lease:
    """One row's stake in the cache."""

    hashes: list[bytes]
    """Of the blocks of its sequence; grows as the row draws."""
    prefixes: list[Prefix] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    """Pinned while the row reads them."""
    on_disk: int = 0
    """Blocks, from the first, that the disk tier has or was handed."""
    announced: list[bytes] = field(default_factory=list)
    """Blocks that this row is about to compute, so that others wait for them."""

    @property
    def shared_tokens(self) -> int:
        return sum(prefix.tokens for prefix in self.prefixes)


class PrefixCache:
    """For models whose rows can read each other's KV (`RaggedModel.shares_prefixes`)."""

    def __init__(self, root: bytes, ram_bytes: int, disk: DiskTier | None) -> None:
        """`root` is the hash of everything that KV depends on besides its tokens; see `blocks.root_hash`."""
        self._root = root
        self._ram_bytes = self._usual_ram_bytes = ram_bytes
        self._disk = disk
        self._misses = MissHistory(BLOCK_TOKENS, found_stale=disk is not None and disk.found_stale)
        self._ram = RamTier(self._misses.evicted)
        self._announced: dict[bytes, int] = {}

    @property
    def ram_nbytes(self) -> int:
        return self._ram.nbytes

    def lease(self, tokens: Sequence[int]) -> Lease:
        """For a row with this sequence; it holds nothing yet. One token at least is left to compute."""
        return Lease(chain(self._root, tokens[:-1], BLOCK_TOKENS))

    def should_wait(self, lease: Lease) -> bool:
        """Whether another row is computing the very next block that this one would have to compute."""
        missing = next((block for block in lease.hashes if not self._knows(block)), None)
        return missing is not None and missing in self._announced

    def begin(self, lease: Lease, tokens: Sequence[int]) -> Found:
        """Take what is known of the row's sequence into its lease."""
        runs = self._ram.lookup(lease.hashes)
        in_ram = sum(run.block_count for run in runs)
        loaded = self._load(lease.hashes, in_ram)
        if loaded is not None:
            runs.append(Run(loaded, 0, len(loaded.blocks)))
        hit = sum(run.block_count for run in runs)
        self._take(lease, runs)
        self._ram.evict_to(self._ram_bytes)
        self._use_disk(lease, hit)
        lease.announced = lease.hashes[hit:]
        for block in lease.announced:
            self._announced[block] = self._announced.get(block, 0) + 1
        tier = None if hit == 0 else Tier.RAM if loaded is None else Tier.DISK
        miss = self._misses.explain(tokens, lease.hashes, hit)
        reason, diverged_at = (miss.reason, miss.diverged_at) if miss is not None else (None, None)
        from_disk = len(loaded.blocks) if loaded is not None else 0
        return Found(hit * BLOCK_TOKENS, tier, reason, diverged_at, from_disk * BLOCK_TOKENS)

    def share(self, lease: Lease, model: RaggedModel, row: RowState, tokens: Sequence[int]) -> None:
        """Make the row's computed full blocks a segment that others find, and let the row itself read it."""
        segment = self._keep(lease, row, tokens)
        self._retract(lease)
        if segment is None:
            return
        part = _read(Run(segment, 0, len(segment.blocks)))
        lease.prefixes.append(part)
        self._pin(lease, segment)
        row.caches = model.continued(row, lease.prefixes, part.tokens)

    def grow(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> None:
        """Hand the disk tier the next block that the row has completed; in RAM others find it only when it ends."""
        complete = min(len(tokens), row.length) // BLOCK_TOKENS
        own = lease.on_disk * BLOCK_TOKENS - lease.shared_tokens
        if self._disk is not None and complete > lease.on_disk and own >= 0:
            self._extend_hashes(lease, tokens, complete)
            self._write(lease, Prefix.copied(row.caches, own, BLOCK_TOKENS), lease.on_disk)

    def end(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> None:
        """The row leaves: keep its full blocks, let go of what it read."""
        self._keep(lease, row, tokens)
        self._retract(lease)
        for segment in lease.segments:
            self._ram.unpin(segment)
        lease.segments.clear()
        lease.prefixes.clear()
        self._ram.evict_to(self._ram_bytes)

    @property
    def pinned_nbytes(self) -> int:
        """Of `ram_nbytes`, what rows read."""
        return self._ram.pinned_nbytes

    def in_use(self, lease: Lease) -> int:
        """How many of its first tokens rows read already, so that reading them too takes no more memory."""
        return self._ram.pinned_blocks(lease.hashes) * BLOCK_TOKENS

    def make_room(self, ram_bytes: int) -> None:
        """Keep no more than this in RAM for now, but for what rows read."""
        self._ram.evict_to(ram_bytes)

    def shrink(self) -> None:
        """Hold half as much in RAM as now and, said again, only what rows read, until `restore`."""
        self._ram_bytes = self._ram.nbytes // 2 if self._ram_bytes == self._usual_ram_bytes else 0
        self._ram.evict_to(self._ram_bytes)

    def restore(self) -> None:
        """Undo every `shrink`."""
        self._ram_bytes = self._usual_ram_bytes

    def tiers(self) -> dict[Tier, TierSize]:
        """What each tier holds now."""
        ram = {Tier.RAM: TierSize(self._ram.nbytes, self._ram.evicted_blocks)}
        if self._disk is None:
            return ram
        disk = self._disk.snapshot()
        return ram | {Tier.DISK: TierSize(disk.nbytes, disk.evicted)}

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the tiers contradict themselves; with no row here, nothing may be pinned."""
        self._ram.check_integrity()
        if self._disk is not None and self._disk.flush(0):
            self._disk.check_integrity()

    def close(self, deadline_s: float) -> None:
        """Write what is queued, for so long at most."""
        if self._disk is not None:
            self._disk.flush(deadline_s)
            self._disk.close()

    def _knows(self, block: bytes) -> bool:
        return self._ram.contains(block) or (self._disk is not None and self._disk.contains(block))

    def _retract(self, lease: Lease) -> None:
        for block in lease.announced:
            self._announced[block] -= 1
            if not self._announced[block]:
                del self._announced[block]
        lease.announced = []

    def _take(self, lease: Lease, runs: list[Run]) -> None:
        """Pin the runs' segments and read them; too many are joined behind the first, the likeliest to be shared."""
        if len(runs) > MAX_SHARED_PARTS:
            joined = self._joined(runs[MAX_SHARED_PARTS - 1 :])
            runs = [*runs[: MAX_SHARED_PARTS - 1], Run(joined, 0, len(joined.blocks))]
        for run in runs:
            self._pin(lease, run.segment)
            lease.prefixes.append(_read(run))

    def _joined(self, runs: Sequence[Run]) -> Segment:
        """One segment of several runs' blocks; it takes the place of those that it holds whole."""
        blocks = [block for run in runs for block in run.segment.blocks[run.first_block :][: run.block_count]]
        first = runs[0]
        parent = first.segment.blocks[first.first_block - 1] if first.first_block else first.segment.parent
        segment = _segment(Prefix.joined([_read(run) for run in runs]), parent, blocks)
        self._ram.supersede(segment)
        return segment

    def _pin(self, lease: Lease, segment: Segment) -> None:
        self._ram.pin(segment)
        lease.segments.append(segment)

    def _keep(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> Segment | None:
        """The row's full blocks behind its shared ones, copied into a segment; None when all of them are known."""
        first = lease.shared_tokens // BLOCK_TOKENS
        complete = min(len(tokens), row.length) // BLOCK_TOKENS
        if complete <= first:
            return None
        self._extend_hashes(lease, tokens, complete)
        prefix = Prefix.copied(row.caches, 0, (complete - first) * BLOCK_TOKENS)
        self._write(lease, prefix, first)
        parent = lease.hashes[first - 1] if first else self._root
        segment = _segment(prefix, parent, lease.hashes[first:complete])
        self._misses.remember(tokens[: complete * BLOCK_TOKENS])
        return None if segment in self._ram.insert(segment) else segment

    def _extend_hashes(self, lease: Lease, tokens: Sequence[int], blocks: int) -> None:
        known = len(lease.hashes)
        if blocks > known:
            parent = lease.hashes[-1] if known else self._root
            lease.hashes.extend(chain(parent, tokens[known * BLOCK_TOKENS : blocks * BLOCK_TOKENS], BLOCK_TOKENS))

    def _use_disk(self, lease: Lease, hit: int) -> None:
        """Count the disk's share in a hit as used, and write again what of the hit it has lost."""
        if self._disk is None:
            return
        self._disk.touch(lease.hashes[:hit])
        while lease.on_disk < hit and self._disk.contains(lease.hashes[lease.on_disk]):
            lease.on_disk += 1
        first = 0
        for prefix in lease.prefixes:
            self._write(lease, prefix, first)
            first += prefix.tokens // BLOCK_TOKENS

    def _write(self, lease: Lease, prefix: Prefix, first: int) -> None:
        """Queue those blocks of `prefix`, which begins with block `first`, that come next on disk.

        Stops at a refusal: a block whose parent is not there is never found again.
        """
        skipped, count = lease.on_disk - first, prefix.tokens // BLOCK_TOKENS
        if self._disk is None or not 0 <= skipped < count:
            return
        for arrays in _blocks_of(prefix.piece(skipped * BLOCK_TOKENS, (count - skipped) * BLOCK_TOKENS)):
            parent = lease.hashes[lease.on_disk - 1] if lease.on_disk else self._root
            if not self._disk.put(lease.hashes[lease.on_disk], parent, arrays):
                return
            lease.on_disk += 1

    def _load(self, hashes: Sequence[bytes], known: int) -> Segment | None:
        """The blocks that follow the first `known` on disk, as a segment in RAM."""
        if self._disk is None:
            return None
        read = []
        for block in hashes[known:]:
            arrays = self._disk.read(block) if self._disk.contains(block) else None
            if arrays is None:
                break
            read.append(arrays)
        if not read:
            return None
        prefix = _prefix_from(read)
        parent = hashes[known - 1] if known else self._root
        segment = _segment(prefix, parent, hashes[known : known + len(read)])
        self._ram.insert(segment)
        return segment


@dataclass(frozen=True, slots=True)
class _Kept:
    """A segment's KV, and the pieces of it that rows have read: rows share a piece by its identity."""

    prefix: Prefix
    pieces: dict[tuple[int, int], Prefix] = field(default_factory=dict)


def _segment(prefix: Prefix, parent: bytes, blocks: Sequence[bytes]) -> Segment:
    return Segment(_Kept(prefix), prefix.nbytes, parent, tuple(blocks))


def _read(run: Run) -> Prefix:
    kept = run.segment.payload
    assert isinstance(kept, _Kept)
    place = (run.first_block, run.block_count)
    if place not in kept.pieces:
        kept.pieces[place] = kept.prefix.piece(run.first_block * BLOCK_TOKENS, run.block_count * BLOCK_TOKENS)
    return kept.pieces[place]


def _blocks_of(prefix: Prefix) -> list[dict[str, RawArray]]:
    """Each block's arrays, `k0 v0 k1 v1 …`, [kv_heads, BLOCK_TOKENS, head_dim], in memory of their own."""
    blocks: list[dict[str, RawArray]] = [{} for _ in range(prefix.tokens // BLOCK_TOKENS)]
    for layer, part in enumerate(prefix.layers):
        for name, array in ((f"k{layer}", part.keys), (f"v{layer}", part.values)):
            code = _CODES[array.dtype]
            # NumPy has no bfloat16, and here only the bytes matter.
            plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
            whole = np.array(plain[0])
            for index, block in enumerate(blocks):
                piece = np.ascontiguousarray(whole[:, index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS])
                block[name] = RawArray(code, piece.shape, piece.data)
    return blocks


def _prefix_from(blocks: Sequence[dict[str, RawArray]]) -> Prefix:
    """The inverse of `_blocks_of`."""
    layers = tuple(
        SharedPart(
            mx.concatenate([_array_of(block[f"k{layer}"]) for block in blocks], axis=2),
            mx.concatenate([_array_of(block[f"v{layer}"]) for block in blocks], axis=2),
        )
        for layer in range(len(blocks[0]) // 2)
    )
    mx.eval([array for part in layers for array in (part.keys, part.values)])
    return Prefix(layers, len(blocks) * BLOCK_TOKENS)


def _array_of(raw: RawArray) -> mx.array:
    """[1, kv_heads, BLOCK_TOKENS, head_dim]."""
    dtype = _DTYPES[raw.dtype]
    plain = {mx.float32: np.float32, mx.float16: np.float16, mx.bfloat16: np.uint16}[dtype]
    array = mx.array(np.frombuffer(raw.data, dtype=plain).reshape(1, *raw.shape))
    return array.view(dtype) if dtype == mx.bfloat16 else array
