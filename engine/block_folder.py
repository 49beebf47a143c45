"""Where block files lie: `<folder>/<digest of the version>/<first two digits>/<hash>.safetensors`.

A version is a folder, so that all blocks of another one are found without opening a file. Only files and folders with
names of this form are ever read or removed: a folder that was configured by mistake keeps what else is in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import block_files
from .block_files import SUFFIX, TEMPORARY_SUFFIX, BlockName, RawArray

_VERSION = re.compile(r"[0-9a-f]{32}")
_FAN = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(rf"[0-9a-f]{{32}}({re.escape(SUFFIX)}|{re.escape(TEMPORARY_SUFFIX)})")


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block's file as the folder lists it."""

    block: bytes
    size: int
    modified_ns: int


class BlockFolder:
    """The files of one version, and what other versions left behind."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version
        self._own = folder / hashlib.blake2b(version.encode(), digest_size=16).hexdigest()

    def make(self) -> None:
        """The folder for this version; KV gives prompts away, so it is for its owner only."""
        self._own.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, block: bytes, pieces: list[bytes | memoryview], used_ns: int) -> None:
        block_files.write(self._path(block), pieces, used_ns)

    def encode(self, block: bytes, parent: bytes, arrays: dict[str, RawArray]) -> list[bytes | memoryview]:
        return block_files.encode(BlockName(self._version, block, parent), arrays)

    def read(self, block: bytes) -> dict[str, RawArray]:
        """Raises `BlockDamaged` or `OSError`."""
        return block_files.read(self._path(block), self._version, block)

    def remove(self, block: bytes) -> None:
        self._path(block).unlink(missing_ok=True)

    def use(self, block: bytes, used_ns: int) -> None:
        """Keep a block's last use in its file; nothing happens when the block has gone."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._path(block), ns=(used_ns, used_ns))

    def blocks(self) -> Iterator[FoundBlock]:
        """Every whole block of this version; no file is opened."""
        for entry in _files(self._own):
            if entry.name.endswith(SUFFIX):
                stat = entry.stat(follow_symlinks=False)
                yield FoundBlock(bytes.fromhex(entry.name.removesuffix(SUFFIX)), stat.st_size, stat.st_mtime_ns)

    def remove_leftovers(self) -> None:
        """Remove what a killed process was writing."""
        for entry in _files(self._own):
            if entry.name.endswith(TEMPORARY_SUFFIX):
                Path(entry.path).unlink(missing_ok=True)

    def has_stale(self) -> bool:
        """Whether there is a block of another version."""
        return any(True for version in self._stale_versions() for _ in _files(version))

    def remove_stale(self) -> Iterator[int]:
        """Remove the files of every other version, one with each step; yields their sizes in bytes."""
        for version in self._stale_versions():
            for entry in _files(version):
                size = entry.stat(follow_symlinks=False).st_size
                Path(entry.path).unlink(missing_ok=True)
                yield size
            for folder in [*_folders(version, _FAN), version]:
                # Not empty when something else is in it: that stays.
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def _stale_versions(self) -> list[Path]:
        return [version for version in _folders(self._folder, _VERSION) if version != self._own]

    def _path(self, block: bytes) -> Path:
        name = block.hex()
        return self._own / name[:2] / f"{name}{SUFFIX}"


def _files(version: Path) -> Iterator[os.DirEntry[str]]:
    """Block files and leftovers of one version."""
    for fan in _folders(version, _FAN):
        with os.scandir(fan) as entries:
            # Listed at once: what is removed meanwhile must not disturb the listing.
            named = [entry for entry in entries if _FILE.fullmatch(entry.name)]
        yield from named


def _folders(parent: Path, name: re.Pattern[str]) -> list[Path]:
    """Folders (no links) in `parent` with such names; none when there is no parent."""
    try:
        with os.scandir(parent) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
