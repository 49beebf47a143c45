"""A tree under systemd says when it can be used, and when it is about to end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.e2e.conftest import ServeTree


def test_systemd_hears_that_the_tree_is_ready_only_when_it_can_answer(
    serve_tree: ServeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(address))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(address))
        listening.settimeout(30)
        tree = serve_tree()
        assert listening.recv(200).decode().splitlines()[0] == "READY=1"
        assert tree.client.status().ready
        assert listening.recv(200) == b"WATCHDOG=1"
        assert tree.stop() == 0
        assert listening.recv(200) == b"STOPPING=1"
