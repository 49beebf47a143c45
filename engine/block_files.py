"""One KV block as one file: the safetensors format with a checksum over every byte, raw bytes in and out.

The `safetensors` package takes raw memory addresses and copies on reading; the format is small enough to write here
(an 8-byte little-endian length, a JSON header, the data: https://github.com/huggingface/safetensors#format), and a
block is read without copying it. The tests let the package read what is written here.

Files are renamed into place when they are whole, so that a killed process leaves nothing half-written under a block's
name. They are not synced: after a power failure a block may be torn, which its checksum shows, and it is a miss.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import BlockDamaged

SUFFIX = ".safetensors"
TEMPORARY_SUFFIX = ".tmp"

_LENGTH = struct.Struct("<Q")
_OPENING = '{"__metadata__":{"crc32":"'
_BLANK = b"0" * 8
_CHECKSUM = slice(_LENGTH.size + len(_OPENING), _LENGTH.size + len(_OPENING) + len(_BLANK))
"""Where a file's checksum stands. It is the CRC-32 of the whole file with zeros there."""


@dataclass(frozen=True, slots=True)
class RawArray:
    """An array's bytes: C order, little endian. `dtype` is safetensors' code, such as `F32`, `BF16` or `U32`."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview

    @property
    def nbytes(self) -> int:
        return memoryview(self.data).nbytes


@dataclass(frozen=True, slots=True)
class BlockName:
    """What a file says it is: the version of all that computed it, its block's hash and the hash before that."""

    version: str
    block: bytes
    parent: bytes


def encode(name: BlockName, arrays: Mapping[str, RawArray]) -> list[bytes | memoryview]:
    """A file's content in pieces: its header, then each array's own bytes."""
    header = _header(name, arrays)
    data = [memoryview(array.data).cast("B") for array in arrays.values()]
    checksum = zlib.crc32(header)
    for piece in data:
        checksum = zlib.crc32(piece, checksum)
    return [header[: _CHECKSUM.start] + _hex(checksum) + header[_CHECKSUM.stop :], *data]


def write(path: Path, pieces: Iterable[bytes | memoryview], used_ns: int) -> None:
    """Put a whole file at `path`, with its last use as modification time. Raises `OSError` and leaves nothing then."""
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    path.parent.mkdir(exist_ok=True)
    try:
        with temporary.open("wb") as file:
            file.writelines(pieces)
        os.utime(temporary, ns=(used_ns, used_ns))
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read(path: Path, version: str, block: bytes) -> dict[str, RawArray]:
    """The arrays of a block, as views of one buffer. Raises `BlockDamaged` or `OSError`."""
    content = memoryview(path.read_bytes())
    checksum = zlib.crc32(_BLANK, zlib.crc32(content[: _CHECKSUM.start]))
    if content[_CHECKSUM] != _hex(zlib.crc32(content[_CHECKSUM.stop :], checksum)):
        raise BlockDamaged(f"{path} is damaged: its checksum is not that of its {len(content)} bytes")
    start = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    table, data = json.loads(bytes(content[_LENGTH.size : start])), content[start:]
    said = table.pop("__metadata__")
    if (said["version"], said["hash"]) != (version, block.hex()):
        raise BlockDamaged(f"{path} holds block {said['hash']} of version {said['version']}")
    return {name: _array(entry, data) for name, entry in table.items()}


def _header(name: BlockName, arrays: Mapping[str, RawArray]) -> bytes:
    """Length and header with a blank checksum, padded so that the data is aligned."""
    # The checksum comes first, at a place that depends on nothing.
    said = {"crc32": _BLANK.decode(), "version": name.version, "hash": name.block.hex(), "parent": name.parent.hex()}
    table: dict[str, object] = {"__metadata__": said}
    start = 0
    for key, array in arrays.items():
        end = start + array.nbytes
        table[key] = {"dtype": array.dtype, "shape": array.shape, "data_offsets": [start, end]}
        start = end
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return _LENGTH.pack(len(header)) + header


def _hex(checksum: int) -> bytes:
    return f"{checksum:08x}".encode()


def _array(entry: dict[str, object], data: memoryview) -> RawArray:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
            return RawArray(dtype, tuple(shape), data[start:end])
    raise AssertionError(f"a header with a right checksum has a wrong entry: {entry}")
