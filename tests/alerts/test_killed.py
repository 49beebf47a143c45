"""A real process is killed by SIGKILL between any two steps of delivery, and the next one tells what it left."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.alerts.receivers import receiving

MOST_STEPS = 30


@pytest.mark.timeout(120)
async def test_whatever_the_step_both_ends_arrive_in_order_and_twice_only_with_the_same_id(tmp_path: Path) -> None:
    async with receiving() as receiver:
        command = (sys.executable, "-m", "tests.alerts.die_between_steps", str(tmp_path / "stoker.db"), receiver.url)
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(*command, **pipes)  # type: ignore[arg-type]  # of one kind each
        assert process.stdin is not None and process.stdout is not None

        async def one_life(incident: str, dies_at: int) -> int:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{incident} {dies_at}\n".encode())
            return int(await process.stdout.readline())

        steps = await one_life("undisturbed", -1)
        assert 10 <= steps < MOST_STEPS
        for step in range(steps):
            incident = f"step{step}"
            assert await one_life(incident, step) == -signal.SIGKILL
            if step > 0:
                assert await one_life("-", -1) >= 0
            ids = [got.id for got in receiver.got if f"_{incident}_" in got.id]
            once = list(dict.fromkeys(ids))
            # Killed before its first end was kept it had told nobody, and nothing is to be told.
            wanted = [] if step == 0 else [f"stoker_{incident}_{status}_ops" for status in ("firing", "resolved")]
            assert once == wanted, (step, ids)
            assert len(ids) <= len(once) + 1
        process.stdin.close()
        assert await process.wait() == 0
