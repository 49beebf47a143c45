"""One real child process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stoker.watchdog.child import MAX_LINE_BYTES, Child, Launch, LineSplitter, exit_in_words
from tests.e2e.running import until_gone

LONG_S = 30.0


@asynccontextmanager
async def running(code: str, pass_fds: tuple[int, ...] = (), kept_lines: int = 10) -> AsyncIterator[Child]:
    """A child that runs a piece of Python and says `up` when it is there."""
    up = asyncio.Event()
    launch = Launch((sys.executable, "-I", "-S", "-u", "-c", code), os.environ, pass_fds)
    child = Child(launch, lambda line: up.set() if line.startswith("up") else None, kept_lines)
    await child.spawn()
    try:
        await asyncio.wait_for(up.wait(), LONG_S)
        yield child
    finally:
        child.kill()


async def test_its_last_lines_are_kept_from_both_streams() -> None:
    async with running("import sys; print('up'); print('one', file=sys.stderr); print('two')", kept_lines=2) as child:
        assert await child.wait() == 0
        assert child.tail == ("one", "two")


async def test_a_last_line_without_an_end_is_kept_too() -> None:
    async with running("print('up'); print('cut', end='')") as child:
        await child.wait()
        assert child.tail[-1] == "cut"


async def test_its_exit_code_is_told() -> None:
    async with running("print('up'); raise SystemExit(3)") as child:
        assert await child.wait() == 3


async def test_a_child_that_hears_sigterm_is_not_killed() -> None:
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up'); signal.pause()"
    async with running(code) as child:
        assert await child.stop(LONG_S) == 0


async def test_a_child_that_ignores_sigterm_is_killed_after_the_deadline() -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('up'); [signal.pause() for _ in iter(int, 1)]"
    async with running(code) as child:
        assert exit_in_words(await child.stop(0.05)) == "killed by SIGKILL"


async def test_a_frozen_child_is_killed_at_once_whatever_the_deadline() -> None:
    async with running("print('up'); input()") as child:
        assert not child.frozen
        os.kill(child.pid, signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert child.frozen
        async with asyncio.timeout(LONG_S):
            assert exit_in_words(await child.stop(1000 * LONG_S)) == "killed by SIGKILL"
        assert not child.frozen


async def test_what_it_leaves_behind_in_its_group_ends_with_it() -> None:
    code = "import os, time; pid = os.fork(); pid or time.sleep(60); print('up', pid, flush=True)"
    async with running(code) as child:
        assert await child.wait() == 0
        await until_gone(int(child.tail[-1].split()[1]))


async def test_it_leads_a_session_of_its_own() -> None:
    async with running("print('up'); input()") as child:
        assert os.getsid(child.pid) == child.pid
        await child.stop(LONG_S)


async def test_it_inherits_the_descriptors_it_is_passed_under_the_same_numbers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        code = f"import socket; print('up', socket.socket(fileno={number}).getsockname()[1])"
        async with running(code, pass_fds=(number,)) as child:
            await child.wait()
            assert child.tail == (f"up {listening.getsockname()[1]}",)


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (78, "exit code 78"), (-9, "killed by SIGKILL"), (-99, "killed by signal 99")],
)
def test_an_exit_code_has_words(code: int, words: str) -> None:
    assert exit_in_words(code) == words


def test_lines_are_put_together_from_pieces() -> None:
    splitter = LineSplitter()
    assert [splitter.feed(b"on"), splitter.feed(b"e\ntwo\r\nth"), splitter.flush()] == [[], ["one", "two"], ["th"]]


def test_an_endless_line_is_cut_and_the_next_one_is_whole() -> None:
    splitter = LineSplitter()
    for _ in range(10):
        assert splitter.feed(b"x" * MAX_LINE_BYTES) == []
    cut, whole = splitter.feed(b"\nnext\n")
    assert cut == "x" * MAX_LINE_BYTES + f" [{9 * MAX_LINE_BYTES} bytes cut]"
    assert whole == "next"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert LineSplitter().feed(b"\xff\n") == ["\ufffd"]
