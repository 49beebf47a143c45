"""What systemd wants to hear from a service of `Type=notify`: ready, alive, stopping (`man sd_notify`)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from .units import ALIVE_PERIOD_S


class Notifier:
    """Datagrams to the socket that `$NOTIFY_SOCKET` names; without one nobody listens, and nothing is sent."""

    def __init__(self, address: str | None) -> None:
        # A name that begins with @ is in Linux's abstract namespace, where a NUL stands for it.
        self._address = "\0" + address[1:] if address is not None and address.startswith("@") else address

    @contextlib.asynccontextmanager
    async def serving(self, status: str) -> AsyncIterator[None]:
        """Ready at the begin, alive while it lasts (as long as this event loop turns), stopping at the end.

        `status` is one line for `systemctl status`.
        """
        self._send(f"READY=1\nSTATUS={status}")
        alive = asyncio.create_task(self._keep_saying_alive())
        try:
            yield
        finally:
            alive.cancel()
            self._send("STOPPING=1")

    async def _keep_saying_alive(self) -> None:
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(ALIVE_PERIOD_S)

    def _send(self, state: str) -> None:
        """An init system that does not listen is no reason to stop serving."""
        if self._address is None:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(state.encode(), self._address)
