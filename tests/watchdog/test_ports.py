"""Listening sockets."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from stoker.watchdog.errors import AddressUnavailable
from stoker.watchdog.ports import ListeningSocket


def test_a_port_that_the_system_chose_is_kept_when_it_is_opened_again() -> None:
    listening = ListeningSocket("127.0.0.1", 0, "")
    port = listening.open().getsockname()[1]
    assert listening.url == f"http://127.0.0.1:{port}"
    listening.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert listening.open().getsockname()[1] == port
    listening.close()


def test_clients_queue_while_nobody_answers() -> None:
    listening = ListeningSocket("127.0.0.1", 0, "")
    with socket.create_connection(listening.open().getsockname()):
        listening.close()


def test_a_port_in_use_is_refused_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            AddressUnavailable, match=f"port {port} on 127.0.0.1 is in use by .*; stop that, or try another"
        ):
            ListeningSocket("127.0.0.1", port, "try another").open()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS tells only root who listens")
def test_who_has_the_port_is_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(AddressUnavailable, match=rf"\(pid {os.getpid()}\)"),
    ):
        ListeningSocket("127.0.0.1", taken.getsockname()[1], "").open()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_here_is_refused(host: str) -> None:
    with pytest.raises(AddressUnavailable, match=f"cannot listen on {host}"):
        ListeningSocket(host, 0, "").open()


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80"), ("mac.local", "http://mac.local:80")],
)
def test_its_url_is_one_that_a_client_on_this_machine_can_use(host: str, url: str) -> None:
    assert ListeningSocket(host, 80, "").url == url
