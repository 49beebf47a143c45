"""The stacks of a real child, with a stand-in for py-spy: whether it may look into a process depends on the machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from stoker.watchdog import stacks
from stoker.watchdog.child import Child, Launch

WAITS = "import faulthandler, signal; faulthandler.register(signal.SIGUSR1); print('up', flush=True); input()"


async def dumped(frozen: bool = False) -> tuple[str, ...]:
    """What a child leaves after its stacks were dumped and it was ended."""
    up = asyncio.Event()
    child = Child(Launch((sys.executable, "-I", "-S", "-c", WAITS), os.environ), lambda _: up.set(), kept_lines=50)
    await child.spawn()
    try:
        await up.wait()
        if frozen:
            os.kill(child.pid, signal.SIGSTOP)
            await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        await stacks.dump(child)
    finally:
        await child.stop(30.0)
    return child.tail


def put_py_spy(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch, shell: str = "/bin/sh") -> None:
    program = folder / "py-spy"
    program.write_text(f"#!{shell}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def test_the_childs_own_stacks_are_among_its_last_lines() -> None:
    assert any("most recent call first" in line for line in await dumped())


async def test_what_py_spy_sees_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_py_spy(tmp_path, 'echo "seen with $*"', monkeypatch)
    (line,) = [line for line in await dumped() if line.startswith("seen with dump")]
    assert "--pid" in line


async def test_a_py_spy_that_hangs_does_not_hold_the_restart_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_py_spy(tmp_path, "exec sleep 600", monkeypatch)
    monkeypatch.setattr(stacks, "PY_SPY_DEADLINE_S", 0.05)
    assert any("most recent call first" in line for line in await dumped())


async def test_a_py_spy_that_cannot_be_run_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_py_spy(tmp_path, "", monkeypatch, shell="/no/such/shell")
    assert any("most recent call first" in line for line in await dumped())


async def test_nobody_waits_for_the_stacks_of_a_frozen_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_py_spy(tmp_path, "exec sleep 600", monkeypatch)
    monkeypatch.setattr(stacks, "PY_SPY_DEADLINE_S", 600.0)
    assert (await dumped(frozen=True))[-1] == "it was stopped by SIGSTOP, so there are no stacks"
