"""KV of many tokens as a segment that rows read, and as blocks for files."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import mlx.core as mx

from .block_files import RawArray
from .blocks import Run, Segment
from .kv_arrays import KVArray, Prefix, Quantization, SharedPart
from .raw_arrays import array_of, code_of, plain, raw_plain

BLOCK_TOKENS = 64

_SUFFIXES = ("", ".scales", ".biases")
"""Of the names of a quantized array's parts in a file."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A segment's KV, and the pieces of it that rows read now: rows share a piece by its identity."""

    prefix: Prefix
    pieces: MutableMapping[tuple[int, int], Prefix] = field(default_factory=WeakValueDictionary)


def segment_of(prefix: Prefix, parent: bytes, blocks: Sequence[bytes]) -> Segment:
    return Segment(_Kept(prefix), prefix.nbytes, parent, tuple(blocks))


def kept(run: Run) -> Prefix:
    """A run's KV as the segment has it."""
    return _payload(run).prefix.piece(run.first_block * BLOCK_TOKENS, run.block_count * BLOCK_TOKENS)


def read(run: Run, dense: bool) -> Prefix:
    """A run's KV for a row to read, the same object for all rows that read it at a time.

    `dense`: kept quantized, for rows that are not; such a piece takes memory of its own.
    """
    place = (run.first_block, run.block_count)
    pieces = _payload(run).pieces
    piece = pieces.get(place)
    if piece is None:
        piece = pieces[place] = kept(run).dense() if dense else kept(run)
    return piece


def blocks_of(prefix: Prefix) -> list[dict[str, RawArray]]:
    """Each block's arrays, `k0 v0 k1 v1 …`, [kv_heads, BLOCK_TOKENS, …], in memory of their own."""
    blocks: list[dict[str, RawArray]] = [{} for _ in range(prefix.tokens // BLOCK_TOKENS)]
    for name, array in _named(prefix):
        whole = plain(array[0])
        for index, block in enumerate(blocks):
            piece = whole[:, index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
            block[name] = raw_plain(code_of(array), piece)
    return blocks


def prefix_from(blocks: Sequence[dict[str, RawArray]], quantization: Quantization | None) -> Prefix:
    """The inverse of `blocks_of`; the blocks were quantized so."""
    suffixes = _SUFFIXES if quantization is not None else _SUFFIXES[:1]

    def whole(name: str) -> KVArray:
        columns = ([array_of(block[name + suffix])[None] for block in blocks] for suffix in suffixes)
        return KVArray(tuple(mx.concatenate(column, axis=2) for column in columns), quantization)

    count = sum(name.startswith("k") and "." not in name for name in blocks[0])
    layers = tuple(SharedPart(whole(f"k{layer}"), whole(f"v{layer}")) for layer in range(count))
    mx.eval([array for part in layers for array in (*part.keys.arrays, *part.values.arrays)])
    return Prefix(layers, len(blocks) * BLOCK_TOKENS)


def _payload(run: Run) -> _Kept:
    assert isinstance(run.segment.payload, _Kept)
    return run.segment.payload


def _named(prefix: Prefix) -> Iterator[tuple[str, mx.array]]:
    for layer, part in enumerate(prefix.layers):
        for name, kv in ((f"k{layer}", part.keys), (f"v{layer}", part.values)):
            for suffix, array in zip(_SUFFIXES, kv.arrays, strict=False):
                yield name + suffix, array
