"""The acts of chaos so far, and which requests met one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from .intervals import Act

AFTERMATH_S = 5.0
"""After a recovery everybody's prefill comes at once; what that costs is the act's, too."""


class ChaosLog:
    """Of one process of a run."""

    def __init__(self) -> None:
        self._new: list[Act] = []
        self._windows: list[tuple[float, float]] = []
        self._since: float | None = None
        self._calm = asyncio.Event()
        self._calm.set()

    @property
    def acting(self) -> bool:
        """Whether an act is under way."""
        return self._since is not None

    async def calm(self, within_s: float) -> None:
        """Wait for the end of an act under way, but not longer."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._calm.wait(), within_s)

    @contextlib.contextmanager
    def under_way(self, since: float) -> Iterator[None]:
        """An act, until the tree is over it."""
        self._since = since
        self._calm.clear()
        try:
            yield
        finally:
            self._since = None
            self._calm.set()

    def add(self, act: Act) -> None:
        self._new.append(act)
        if act.over_at is not None:
            self._windows.append((act.at, (act.recovered_at or float("inf")) + AFTERMATH_S))

    def written(self) -> list[Act]:
        """Those since this was called last."""
        new, self._new = self._new, []
        return new

    def touches(self, since: float, until: float) -> bool:
        """Whether a request of that time met an act."""
        if self._since is not None and until >= self._since:
            return True
        # Requests end in about the order of time: only the last acts can have met one that ends now.
        return any(since <= ends and until >= begins for begins, ends in self._windows[-50:])
