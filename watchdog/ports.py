"""Listening sockets that outlive the process that answers on them."""

from __future__ import annotations

import errno
import socket

import psutil

from .errors import AddressUnavailable

BACKLOG = 1024


class ListeningSocket:
    """A host and port, opened at the door and held for as long as clients may queue there."""

    def __init__(self, host: str, port: int, way_out: str) -> None:
        """`way_out` ends the sentence about a port in use: what a person can do about this one."""
        self._host = host
        self._port = port
        self._way_out = way_out
        self._socket: socket.socket | None = None

    def open(self) -> socket.socket:
        """Listen, if not yet. Port 0 becomes the one the system chose, for good. Raises `AddressUnavailable`."""
        if self._socket is None:
            try:
                self._socket = self._listen()
            except OSError as error:
                raise AddressUnavailable(self._explain(error)) from error
            self._port = self._socket.getsockname()[1]
        return self._socket

    def close(self) -> None:
        """Clients are refused from now on instead of queueing; `open` listens again on the same port."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def url(self) -> str:
        """Where a client on this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self._host, self._host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    def _listen(self) -> socket.socket:
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._host or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        return listening

    def _explain(self, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE:
            return (
                f"port {self._port} on {self._host} is in use by {_listener(self._port)}; stop that, or {self._way_out}"
            )
        return f"cannot listen on {self._host} port {self._port}: {error.strerror}; {self._way_out}"


def _listener(port: int) -> str:
    """Who listens on the port, where the system tells us (macOS tells only root, Linux only about one's own)."""
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if listens and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        pass
    return "another program"
