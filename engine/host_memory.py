"""How much memory this process may use: its control groups' limit on Linux, and what the machine has. No MLX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

NO_LIMIT = 1 << 60
"""Control groups of version 1 say "unlimited" with the largest number of pages."""


def physical_bytes() -> int:
    """What the machine has."""
    return int(psutil.virtual_memory().total)


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """The smallest limit of the process's control group and of those around it; None where there is none."""
    limits = [limit for file in _limit_files(root) if (limit := _limit(file)) is not None]
    return min(limits, default=None)


def _limit_files(root: Path) -> Iterator[Path]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0":
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the group may be named as outside, where this mount does not have it; its root then counts.
        folder = mount / group.lstrip("/")
        yield from (each / name for each in (folder, *folder.parents) if each.is_relative_to(mount))


def _limit(file: Path) -> int | None:
    text = _text(file).strip()
    limit = int(text) if text.isascii() and text.isdigit() else NO_LIMIT
    return limit if 0 < limit < NO_LIMIT else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
