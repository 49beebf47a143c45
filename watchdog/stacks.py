"""What a process is doing, written where its last lines are kept, before it is ended for doing nothing."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from pathlib import Path

import structlog

from .child import Child

OWN_STACKS_WORDS = "(most recent call first)"
OWN_STACKS_DEADLINE_S = 1.0
PY_SPY_DEADLINE_S = 5.0
# py-spy reads native frames on Linux, not on macOS.
_NATIVE = ("--native",) if sys.platform == "linux" else ()

log = structlog.get_logger(__name__)


async def dump(child: Child) -> None:
    """Python's stacks from the child itself (`process.configure_logging` listens for the signal), and the native ones
    from py-spy where it is installed and allowed. A frozen child can tell nothing, and py-spy would wait for it."""
    if child.frozen:
        child.note("it was stopped by SIGSTOP, so there are no stacks")
        return
    child.send_signal(signal.SIGUSR1)
    # A SIGTERM that came before the child has run again would end it before it could write anything.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(OWN_STACKS_DEADLINE_S):
            await child.until_said(OWN_STACKS_WORDS)
    if (py_spy := _py_spy()) is not None:
        for line in await _output_of(py_spy, "dump", *_NATIVE, "--pid", str(child.pid)):
            child.note(line)


def _py_spy() -> str | None:
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))


async def _output_of(*command: str) -> list[str]:
    """The lines of a command that is given little time; none when it cannot be run."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        log.warning("py_spy_not_run", error=str(error))
        return []
    try:
        async with asyncio.timeout(PY_SPY_DEADLINE_S):
            output, _ = await process.communicate()
    except TimeoutError:
        log.warning("py_spy_too_slow", deadline_s=PY_SPY_DEADLINE_S)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return []
    return output.decode("utf-8", errors="replace").splitlines()
