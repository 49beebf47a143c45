"""The prefix cache over MLX: rows begin with KV that is known in RAM or on disk, and leave theirs behind.

A row's KV lies in shared parts and a tail (`ragged_attention`). When its prompt is computed, and again when it ends,
the full blocks of its tail become a segment that others find; the row itself reads the segment from then on, so that
rows with a common beginning share one memory. Each block also goes to the disk tier, while the row is still running:
an engine that dies takes little of it along. Models with windows or recurrent state begin where a checkpoint was made
(`checkpoints`). Step thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from .batch import Found, TierSize
from .blocks import Run, Segment, chain
from .checkpoints import CheckpointPlan, spacing_along
from .kv_arrays import Prefix, Quantization
from .kv_disk import DiskTier
from .misses import Miss, MissHistory
from .prefix_blocks import BLOCK_TOKENS, kept, read, segment_of
from .prefix_tiers import Hit, PrefixTiers
from .protocol import MissReason, Tier
from .ragged import RaggedModel
from .row_state import RowState, kv_leaves

MAX_SHARED_PARTS = 2
"""A row begins with at most so many parts; more are copied together, since each costs its own products a step."""


@dataclass(slots=True, eq=False)
class Lease:
    """One row's stake in the cache."""

    hashes: list[bytes]
    """Of the blocks of its sequence; grows as the row draws."""
    in_ram: int = 0
    """Blocks, from the first, that the row found or has left in RAM."""
    on_disk: int = 0
    """Blocks, from the first, that the disk tier has or was handed."""
    prefixes: list[Prefix] = field(default_factory=list)
    """What the row reads where it lies."""
    segments: list[Segment] = field(default_factory=list)
    """Those that hold it, pinned."""
    announced: list[bytes] = field(default_factory=list)
    """Blocks that this row is about to compute, so that others wait for them."""
    plan: CheckpointPlan | None = None
    row: RowState | None = None
    """Once it has begun."""


class PrefixCache:
    """For models whose rows can begin with each other's KV (`RaggedModel.resumes`)."""

    def __init__(
        self,
        root: bytes,
        ram_bytes: int,
        disk: DiskTier | None,
        model: RaggedModel,
        quantization: Quantization | None = None,
    ) -> None:
        """`root` is the hash of everything that KV depends on besides its tokens; see `blocks.root_hash`.

        `quantization` is how KV is kept where rows have it unquantized: smaller, and a hit is then not wholly what a
        cold run is.
        """
        assert model.resumes, "a model whose caches cannot be kept"
        assert quantization is None or model.quantization is None, "KV cannot be quantized twice"
        self._root = root
        self._ram_bytes = self._usual_ram_bytes = ram_bytes
        self._model = model
        self._misses = MissHistory(BLOCK_TOKENS, found_stale=disk is not None and disk.found_stale)
        self._quantization = quantization
        self._tiers = PrefixTiers(
            root,
            disk,
            needs_checkpoints=model.needs_checkpoints,
            quantization=quantization or model.quantization,
            on_evicted=self._misses.evicted,
        )
        self._dense: WeakSet[Prefix] = WeakSet()
        """What rows read now that is kept quantized."""
        self._checkpoint_bytes = 0
        """Of the largest checkpoint so far."""
        self._announced: dict[bytes, list[Lease]] = {}

    @property
    def nbytes(self) -> int:
        """Of all KV in memory that is no row's own."""
        return self._tiers.ram.nbytes + self._dense_nbytes

    @property
    def segments(self) -> int:
        """Pieces of KV in memory, each as many arrays as a row's."""
        return self._tiers.ram.segments

    @property
    def pinned_nbytes(self) -> int:
        """Of them, what rows read."""
        return self._tiers.ram.pinned_nbytes + self._dense_nbytes

    @property
    def _dense_nbytes(self) -> int:
        return sum(prefix.nbytes for prefix in self._dense)

    def lease(self, tokens: Sequence[int]) -> Lease:
        """For a row with this sequence; it holds nothing yet. One token at least is left to compute."""
        return Lease(chain(self._root, tokens[:-1], BLOCK_TOKENS))

    def should_wait(self, lease: Lease) -> bool:
        """Whether another row is computing the very next block that this one would have to compute.

        Where a row needs a checkpoint to begin, the other is asked to make one at their fork, unless it is past that.
        """
        known = self._tiers.known(lease.hashes)
        computing = self._announced.get(lease.hashes[known]) if known < len(lease.hashes) else None
        if not computing:
            return False
        other = computing[0]
        if other.plan is None or other.row is None:
            return True
        wanted = BLOCK_TOKENS * _common(lease.hashes, other.hashes)
        if wanted > other.row.length:
            other.plan.add(wanted)
        return other.plan.stops_at(wanted)

    def begin(self, lease: Lease, tokens: Sequence[int]) -> tuple[RowState, Found]:
        """A row with what is known of its sequence."""
        known = self._tiers.known(lease.hashes)
        hit = self._tiers.find(lease.hashes)
        lease.row = row = self._row(lease, hit)
        self._tiers.ram.evict_to(self._ram_bytes)
        lease.in_ram = hit.blocks
        lease.announced = lease.hashes[hit.blocks :]
        for block in lease.announced:
            self._announced.setdefault(block, []).append(lease)
        if self._tiers.checkpoints is not None:
            lease.plan = row.plan = self._plan(hit.blocks, known, len(tokens))
        return row, self._found(lease, tokens, hit, known)

    def advance(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> None:
        """The row has drawn: share its prompt when that has just been computed, else keep what has become whole."""
        if lease.announced:
            self._share(lease, row, tokens)
        else:
            self._grow(lease, row, tokens)
        self._keep_checkpoints(lease, row, tokens, ends=False)

    def end(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> None:
        """The row leaves: keep its full blocks, let go of what it read."""
        self._keep(lease, row, tokens)
        self._keep_checkpoints(lease, row, tokens, ends=True)
        self._retract(lease)
        for segment in lease.segments:
            self._tiers.ram.unpin(segment)
        lease.segments.clear()
        lease.prefixes.clear()
        self._tiers.ram.evict_to(self._ram_bytes)

    def in_use(self, lease: Lease) -> int:
        """How many of its first tokens rows read already, so that reading them too takes no more memory."""
        return self._tiers.ram.pinned_blocks(lease.hashes) * BLOCK_TOKENS

    def make_room(self, ram_bytes: int) -> None:
        """Keep no more than this in RAM for now, but for what rows read."""
        self._tiers.ram.evict_to(ram_bytes - self._dense_nbytes)

    def shrink(self) -> None:
        """Hold half as much in RAM as now and, said again, only what rows read, until `restore`."""
        self._ram_bytes = self._tiers.ram.nbytes // 2 if self._ram_bytes == self._usual_ram_bytes else 0
        self._tiers.ram.evict_to(self._ram_bytes)

    def restore(self) -> None:
        """Undo every `shrink`."""
        self._ram_bytes = self._usual_ram_bytes

    def tiers(self) -> dict[Tier, TierSize]:
        """What each tier holds now."""
        return self._tiers.sizes()

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the tiers contradict themselves; with no row here, nothing may be pinned."""
        self._tiers.check_integrity()

    def close(self, deadline_s: float) -> None:
        """Write what is queued, for so long at most."""
        self._tiers.close(deadline_s)

    def _row(self, lease: Lease, hit: Hit) -> RowState:
        """Read the runs, and pin them if the row goes on reading them; too many are joined behind the first.

        The first is the likeliest to be shared.
        """
        runs = hit.runs
        if len(runs) > MAX_SHARED_PARTS:
            runs = [*runs[: MAX_SHARED_PARTS - 1], self._tiers.join(runs[MAX_SHARED_PARTS - 1 :])]
        prefixes = [self._read(run) for run in runs]
        self._use_disk(lease, hit, [kept(run) for run in runs])
        if self._model.shares_parts:
            for run, prefix in zip(runs, prefixes, strict=True):
                self._read_from(lease, run.segment, prefix)
        return self._model.new_row(prefixes, hit.checkpoint.checkpoint if hit.checkpoint is not None else None)

    def _read(self, run: Run) -> Prefix:
        prefix = read(run, dense=self._quantization is not None)
        if self._quantization is not None:
            self._dense.add(prefix)
        return prefix

    def _read_from(self, lease: Lease, segment: Segment, prefix: Prefix) -> None:
        self._tiers.ram.pin(segment)
        lease.segments.append(segment)
        lease.prefixes.append(prefix)

    def _plan(self, hit: int, known: int, prompt_tokens: int) -> CheckpointPlan:
        return CheckpointPlan.along(
            begun=hit * BLOCK_TOKENS,
            known=known * BLOCK_TOKENS,
            prompt_tokens=prompt_tokens,
            spacing=spacing_along(prompt_tokens, self._checkpoint_bytes, self._ram_bytes),
            block_tokens=BLOCK_TOKENS,
        )

    def _found(self, lease: Lease, tokens: Sequence[int], hit: Hit, known: int) -> Found:
        miss = self._misses.explain(tokens, lease.hashes, hit.blocks)
        if self._tiers.checkpoints is not None and hit.blocks < known:
            # The KV of the blocks between is there, and of no use without the state beside it.
            miss = Miss(MissReason.NOT_TRIMMABLE)
        reason, diverged_at = (miss.reason, miss.diverged_at) if miss is not None else (None, None)
        return Found(hit.blocks * BLOCK_TOKENS, hit.tier, reason, diverged_at, hit.from_disk * BLOCK_TOKENS)

    def _retract(self, lease: Lease) -> None:
        for block in lease.announced:
            self._announced[block].remove(lease)
            if not self._announced[block]:
                del self._announced[block]
        lease.announced = []

    def _share(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> None:
        """Make the row's computed full blocks a segment that others find, and let the row itself read it."""
        segment = self._keep(lease, row, tokens)
        self._retract(lease)
        if segment is not None and self._model.shares_parts and self._quantization is None:
            part = self._read(Run(segment, 0, len(segment.blocks)))
            self._read_from(lease, segment, part)
            self._model.share(row, lease.prefixes, part.tokens)

    def _grow(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> None:
        """Hand the disk tier the next block that the row has completed; in RAM others find it only when it ends."""
        complete = min(len(tokens), row.length) // BLOCK_TOKENS
        own = lease.on_disk * BLOCK_TOKENS - row.shared
        if self._tiers.disk is not None and complete > lease.on_disk and own >= 0:
            self._extend_hashes(lease, tokens, complete)
            self._write(lease, self._copied(row, own, BLOCK_TOKENS), lease.on_disk)

    def _keep(self, lease: Lease, row: RowState, tokens: Sequence[int]) -> Segment | None:
        """The row's full blocks behind those in RAM, copied into a segment; None when all of them are known."""
        first = lease.in_ram
        complete = min(len(tokens), row.length) // BLOCK_TOKENS
        if complete <= first:
            return None
        self._extend_hashes(lease, tokens, complete)
        start = first * BLOCK_TOKENS - row.shared
        prefix = self._copied(row, start, (complete - first) * BLOCK_TOKENS)
        self._write(lease, prefix, first)
        parent = lease.hashes[first - 1] if first else self._root
        segment = segment_of(prefix, parent, lease.hashes[first:complete])
        self._misses.remember(tokens[: complete * BLOCK_TOKENS])
        if segment in self._tiers.ram.insert(segment):
            return None
        lease.in_ram = complete
        return segment

    def _copied(self, row: RowState, start: int, count: int) -> Prefix:
        """Of a row's own tail, as it is to be kept."""
        prefix = Prefix.copied(kv_leaves(row.caches), start, count)
        return prefix.quantized(self._quantization) if self._quantization is not None else prefix

    def _keep_checkpoints(self, lease: Lease, row: RowState, tokens: Sequence[int], ends: bool) -> None:
        """Store what the row has saved on its way; in its answer, the last may yet be replaced and stays with it."""
        if self._tiers.checkpoints is None or lease.plan is None:
            return
        while row.checkpoints and row.checkpoints[0].tokens <= len(tokens):
            checkpoint = row.checkpoints[0]
            is_last = len(row.checkpoints) == 1
            lasting = lease.plan.is_lasting(checkpoint.tokens)
            if is_last and not lasting and not ends:
                return
            row.checkpoints.pop(0)
            if is_last or lasting:
                blocks = checkpoint.tokens // BLOCK_TOKENS
                self._extend_hashes(lease, tokens, blocks)
                self._checkpoint_bytes = max(self._checkpoint_bytes, checkpoint.nbytes)
                self._tiers.checkpoints.keep(lease.hashes[blocks - 1], checkpoint)

    def _extend_hashes(self, lease: Lease, tokens: Sequence[int], blocks: int) -> None:
        known = len(lease.hashes)
        if blocks > known:
            parent = lease.hashes[-1] if known else self._root
            lease.hashes.extend(chain(parent, tokens[known * BLOCK_TOKENS : blocks * BLOCK_TOKENS], BLOCK_TOKENS))

    def _use_disk(self, lease: Lease, hit: Hit, prefixes: Sequence[Prefix]) -> None:
        """Count the disk's share in a hit as used, and write again what of the hit it has lost."""
        disk = self._tiers.disk
        if disk is None:
            return
        hashes = lease.hashes[: hit.blocks]
        disk.touch(hashes)
        lease.on_disk = next((i for i, block in enumerate(hashes) if not disk.contains(block)), len(hashes))
        first = 0
        for prefix in prefixes:
            self._write(lease, prefix, first)
            first += prefix.tokens // BLOCK_TOKENS
        if self._tiers.checkpoints is not None and hit.checkpoint is not None:
            self._tiers.checkpoints.use(hashes, hit.checkpoint.checkpoint)

    def _write(self, lease: Lease, prefix: Prefix, first: int) -> None:
        lease.on_disk = self._tiers.write(lease.hashes, prefix, first, lease.on_disk)


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many of their first blocks two chains have in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
