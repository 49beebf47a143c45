"""An event loop whose time jumps to the next thing that is due: real coroutines live through days in seconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: what it was to wait for is added to the time."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self.passed_s += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """For coroutines that use no threads and no sockets."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_s


def simulated(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, in its own time."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(coroutine)
