"""Small files of `/proc` and `/sys`, which may be absent, empty, cut short or full of nonsense."""

from __future__ import annotations

import os
from pathlib import Path

MAX_BYTES = 64 * 1024
_MAX = 2**63 - 1


def content(path: Path) -> str:
    """The file's beginning; empty when there is none to read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def number(text: str | None) -> int | None:
    """A count: digits alone, no more than the kernel could count. None for everything else."""
    text = "" if text is None else text.strip()
    # `isdigit` alone is also true of digits of other scripts.
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    value = int(text)
    return value if value <= _MAX else None


def numbers(text: str) -> dict[str, int]:
    """Lines of `name value` or `name: value unit`, as far as they are that."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, *rest = line.replace(":", " ").split()[:2] or [""]
        if rest and (value := number(rest[0])) is not None:
            found[name] = value
    return found


def kilobytes(found: dict[str, int], *names: str) -> int | None:
    """The sum of these, in bytes; None unless all are there."""
    values = [found[name] for name in names if name in found]
    return sum(values) * 1024 if len(values) == len(names) else None


def disk(folder: Path) -> tuple[int | None, int | None]:
    """Bytes of the folder's file system, and how many of them this user may still fill."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
