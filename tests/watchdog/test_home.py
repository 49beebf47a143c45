"""Files under a home."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.config import Paths
from stoker.watchdog.errors import HomeInUse, HomeUnusable
from stoker.watchdog.home import EpochCounter, admin_token, held, private_folder, write_private


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "home")


def no_wait(pid: int) -> None:
    raise AssertionError(f"waited for {pid}")


def test_a_held_home_is_refused_with_the_pid_of_its_holder(paths: Paths) -> None:
    with held(paths, 0, no_wait), pytest.raises(HomeInUse, match=f"pid {os.getpid()}"), held(paths, 0, no_wait):
        pass


def test_a_home_can_be_held_again_after_it_was_let_go(paths: Paths) -> None:
    with held(paths, 0, no_wait):
        assert paths.lock.read_text() == str(os.getpid())
    with held(paths, 0, no_wait):
        pass


def test_children_of_a_dead_holder_are_waited_for(paths: Paths) -> None:
    """The child says who holds the lock, then ends when its standard input does; its parent is long gone."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with held(paths, 0, no_wait) as lock:
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        orphan = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(lock,))
    paths.lock.write_text(str(dead.pid))
    assert orphan.stdin is not None
    waited: list[int] = []

    def let_the_orphan_end(pid: int) -> None:
        waited.append(pid)
        assert orphan.stdin is not None
        orphan.stdin.close()

    with pytest.raises(HomeInUse, match="still in use by children"), held(paths, -1, no_wait):
        pass
    with held(paths, 30, let_the_orphan_end):
        assert waited == [dead.pid]
    orphan.wait()


def test_the_run_folder_is_for_its_owner_alone(paths: Paths) -> None:
    paths.run.mkdir(parents=True, mode=0o755)
    with held(paths, 0, no_wait):
        assert stat.S_IMODE(paths.run.stat().st_mode) == 0o700


def test_a_folder_that_is_a_link_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(HomeUnusable, match="not a folder of this user"):
        private_folder(tmp_path / "link")


def test_a_private_file_is_replaced_whole_and_readable_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_epochs_are_never_used_twice(tmp_path: Path) -> None:
    first = EpochCounter(tmp_path / "epoch")
    assert [first.next(), first.next()] == [1, 2]
    assert EpochCounter(tmp_path / "epoch").next() == 3


@pytest.mark.parametrize("content", [b"", b"seven", b"\xff\x00", b"-3"])
def test_a_damaged_epoch_file_is_started_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "epoch").write_bytes(content)
    assert EpochCounter(tmp_path / "epoch").next() == 1


def test_an_epoch_that_cannot_be_written_is_still_counted(tmp_path: Path) -> None:
    counter = EpochCounter(tmp_path / "missing" / "epoch")
    assert [counter.next(), counter.next()] == [1, 2]


def test_the_admin_token_is_made_once_for_its_owner_alone(paths: Paths) -> None:
    paths.home.mkdir()
    token = admin_token(paths)
    assert len(token) > 30
    assert admin_token(paths) == token
    assert stat.S_IMODE(paths.admin_token.stat().st_mode) == 0o600
