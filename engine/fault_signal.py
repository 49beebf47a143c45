"""SIGUSR2: the word that a fault with `on_signal` waits for, so that a soak run can choose the moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence

from ..config import Fault


def called_for(faults: Sequence[Fault]) -> Callable[[], bool]:
    """Whether the signal has come; from the main thread. Without a fault that waits for it nothing is changed."""
    came = threading.Event()
    if any(fault.on_signal for fault in faults):
        signal.signal(signal.SIGUSR2, lambda number, frame: came.set())
    return came.is_set
