"""Real engine processes: heartbeats through a hang, signals, a parent that dies, and one thread for MLX."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from stoker.config import Engine, Fault, Simulated
from stoker.engine.client import SocketEngineClient
from stoker.engine.errors import EngineUnavailable
from stoker.engine.protocol import Finished, FinishReason, Phase, RejectCode, Rejected, Sampling, Submit, Tighten
from stoker.engine.server import EXIT_STEP_THREAD_FAILED
from stoker.engine.wire import encode
from stoker.process import EXIT_UNUSABLE

from ..tiny_models import make_tiny_llama
from .processes import DEADLINE_S, EngineUnderTest, Recorder, running_engine, settings_of, start_engine

SIMULATED = Engine(kind="simulated", heartbeat_s=0.02)


def simulated(*faults: Fault, step_s: float = 0.001) -> Engine:
    return Engine(kind="simulated", heartbeat_s=0.02, simulated=Simulated(step_s=step_s, faults=faults))


def submit(name: str, max_tokens: int = 20, seed: int = 1) -> Submit:
    return Submit(name, [65, 66, 67], [], Sampling(seed=seed), max_tokens, [0])


async def exit_code(engine: EngineUnderTest) -> int:
    async with asyncio.timeout(DEADLINE_S):
        return await asyncio.to_thread(engine.process.wait)


async def test_requests_are_served_and_counted_in_heartbeats(tmp_path: Path) -> None:
    async with running_engine(tmp_path, SIMULATED) as engine:
        await engine.ask(submit("a"), submit("b", seed=2))
        assert len(engine.heard.tokens("a")) == len(engine.heard.tokens("b")) == 20
        steps = engine.heard.heartbeats[-1].steps
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].running == 0 and steps > 0)
        assert engine.heard.heartbeats[-1].memory.footprint


async def test_heartbeats_go_on_and_tell_the_truth_while_the_step_thread_hangs(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(Fault(kind="hang", after_tokens=5))) as engine:
        engine.client.submit(submit("a"))
        await engine.heard.until(lambda: (engine.heard.heartbeats[-1].last_step_age or 0) > 0.2)
        beat = engine.heard.heartbeats[-1]
        assert (beat.phase, beat.running) == (Phase.READY, 1)
        stuck_at = beat.steps
        count = len(engine.heard.heartbeats)
        await engine.heard.until(lambda: len(engine.heard.heartbeats) > count + 5)
        assert engine.heard.heartbeats[-1].steps == stuck_at


async def test_sigterm_ends_the_process_with_0_and_removes_its_socket(tmp_path: Path) -> None:
    async with running_engine(tmp_path, SIMULATED) as engine:
        engine.client.submit(submit("a", max_tokens=400))
        engine.process.send_signal(signal.SIGTERM)
        assert await exit_code(engine) == 0
        assert not (tmp_path / "engine.sock").exists()


async def test_sigterm_is_announced_as_a_planned_end_but_not_by_an_engine_that_hangs(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(step_s=0.005)) as engine:
        engine.client.submit(submit("a", max_tokens=10_000))
        await engine.heard.until(lambda: bool(engine.heard.tokens("a")))
        engine.process.send_signal(signal.SIGTERM)
        await engine.heard.until(lambda: bool(engine.heard.losses))
        assert engine.heard.drainings == [1]
    async with running_engine(tmp_path, simulated(Fault(kind="hang"))) as engine:
        engine.client.submit(submit("a"))
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].waiting == 1)
        engine.process.send_signal(signal.SIGTERM)
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].phase is Phase.STOPPING)
        late = Recorder()
        listening = asyncio.create_task(SocketEngineClient(tmp_path / "engine.sock", late).run())
        await late.until(lambda: bool(late.readies and late.heartbeats))
        engine.process.kill()
        await engine.heard.until(lambda: bool(engine.heard.losses))
        await late.until(lambda: bool(late.losses))
        listening.cancel()
        assert engine.heard.drainings == late.drainings == []


async def test_sigterm_ends_an_engine_that_still_loads_at_once(tmp_path: Path) -> None:
    slow = Engine(kind="simulated", simulated=Simulated(load_s=600))
    with start_engine(tmp_path, settings_of(tmp_path, slow)) as process:
        async with asyncio.timeout(DEADLINE_S):
            while not (tmp_path / "engine.sock").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0


async def test_a_drained_engine_finishes_what_it_has_takes_nothing_new_and_ends(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(step_s=0.005)) as engine:
        engine.client.submit(submit("a", max_tokens=30))
        await engine.heard.until(lambda: bool(engine.heard.tokens("a")))
        assert engine.client.drain(DEADLINE_S)
        await engine.heard.until(lambda: engine.heard.drainings == [1])
        engine.client.submit(submit("late"))
        await engine.heard.ended("a", "late")
        assert len(engine.heard.tokens("a")) == 30
        assert [event.code for event in engine.heard.events if isinstance(event, Rejected)] == [RejectCode.STOPPING]
        assert await exit_code(engine) == 0


async def test_a_drain_ends_at_its_deadline_whatever_is_still_running(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(step_s=0.005)) as engine:
        engine.client.submit(Submit("a", [65], [], Sampling(seed=1), 10_000, []))
        await engine.heard.until(lambda: bool(engine.heard.tokens("a")))
        engine.client.drain(0.1)
        assert await exit_code(engine) == 0
        await engine.heard.until(lambda: bool(engine.heard.losses))
        assert not [event for event in engine.heard.events if isinstance(event, Finished)]


async def test_an_idle_engine_that_is_drained_ends_at_once(tmp_path: Path) -> None:
    async with running_engine(tmp_path, SIMULATED) as engine:
        engine.client.drain(DEADLINE_S)
        assert await exit_code(engine) == 0


async def test_heartbeats_say_how_long_steps_take_and_how_much_is_under_way(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(Fault(kind="hang", after_tokens=5), step_s=0.01)) as engine:
        engine.client.submit(submit("a"))
        await engine.heard.until(lambda: (engine.heard.heartbeats[-1].last_step_age or 0) > 0.2)
        beat = engine.heard.heartbeats[-1]
        assert beat.busy_s / beat.steps >= 0.01
        assert beat.computed_tokens >= 3 + 4
        assert beat.step_tokens == 2


async def test_sigusr1_writes_every_threads_stack_even_while_the_step_thread_hangs(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(Fault(kind="hang"))) as engine:
        engine.client.submit(submit("a"))
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].waiting == 1)
        engine.process.send_signal(signal.SIGUSR1)
        engine.process.send_signal(signal.SIGTERM)
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].phase is Phase.STOPPING)
        engine.process.kill()
        output, _ = await asyncio.to_thread(engine.process.communicate)
        assert b"in _suffer" in output
        assert b"in _step_thread" in output


async def test_the_process_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    async with running_engine(tmp_path, SIMULATED) as engine:
        assert engine.process.stdin is not None
        engine.process.stdin.close()
        assert await exit_code(engine) == 0
        engine.process.stdin = None


async def test_a_hung_process_ends_too_when_its_parent_is_gone(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(Fault(kind="hang"))) as engine:
        engine.client.submit(submit("a"))
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].waiting == 1)
        assert engine.process.stdin is not None
        engine.process.stdin.close()
        assert await exit_code(engine) == EXIT_STEP_THREAD_FAILED
        engine.process.stdin = None


async def test_a_connection_that_speaks_nonsense_is_dropped_and_its_requests_with_it(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(step_s=0.005)) as engine:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "engine.sock"))
        writer.write(encode(submit("orphan", max_tokens=5000)))
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].running == 1)
        writer.write(b"\x00\x00\x00\x03abc")
        await reader.read()
        writer.close()
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].running == 0)
        await engine.ask(submit("a"))
        assert len(engine.heard.tokens("a")) == 20


async def test_a_killed_engine_is_heard_as_lost_and_its_successor_as_ready(tmp_path: Path) -> None:
    async with running_engine(tmp_path, SIMULATED) as engine:
        await engine.ask(submit("a"))
        engine.process.kill()
        await engine.heard.until(lambda: bool(engine.heard.losses))
        engine.process.communicate()
        engine.process = successor = start_engine(tmp_path, settings_of(tmp_path, SIMULATED, epoch=2))
        try:
            await engine.heard.until(lambda: len(engine.heard.readies) == 2)
            assert [ready.epoch for ready in engine.heard.readies] == [1, 2]
            whole = engine.heard.tokens("a")
            await engine.ask(Submit("b", [65, 66, 67], whole[:7], Sampling(seed=1), 20, [0]))
            assert whole[:7] + engine.heard.tokens("b") == whole
        finally:
            successor.kill()
            successor.communicate()


def test_a_folder_that_is_no_model_ends_the_process_as_unusable_with_one_sentence(tmp_path: Path) -> None:
    make_tiny_llama(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not safetensors")
    settings = settings_of(tmp_path, Engine(), model_path=tmp_path / "model")
    with start_engine(tmp_path, settings) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        assert process.wait(DEADLINE_S) == EXIT_UNUSABLE
    last = json.loads(output.splitlines()[-1])
    assert last["event"] == "unusable"
    assert str(tmp_path / "model") in last["error"]


PROFILED_ENGINE = """
import json, runpy, sys, threading
touched = {}
def profile(frame, event, argument):
    module = frame.f_globals.get("__name__", "")
    if module.startswith(("mlx.", "mlx_lm")) or (module.startswith("stoker.") and "mx" in frame.f_globals):
        touched.setdefault(threading.current_thread().name, set()).add(module)
threading.setprofile(profile)
sys.setprofile(profile)
try:
    runpy.run_module("stoker.engine", run_name="__main__", alter_sys=False)
finally:
    sys.setprofile(None)
    print(json.dumps({"touched": {thread: sorted(modules) for thread, modules in touched.items()}}), flush=True)
"""


async def test_mlx_is_touched_by_the_step_thread_alone(tmp_path: Path) -> None:
    """Every Python frame of mlx, mlx-lm and of our modules that hold `mx` is seen by a profiler on all threads."""
    model = make_tiny_llama(tmp_path / "model")
    script = tmp_path / "profiled_engine.py"
    script.write_text(PROFILED_ENGINE)
    async with running_engine(tmp_path, Engine(heartbeat_s=0.02), model, command=(str(script),)) as engine:
        requests = [Submit(f"r{i}", [5] * 70 * (i + 1), [], Sampling(seed=i, top_p=0.9), 12, []) for i in range(3)]
        for request in requests:
            engine.client.submit(request)
        engine.client.cancel("r2")
        await engine.heard.ended("r0", "r1", "r2")
        engine.process.send_signal(signal.SIGTERM)
        output, _ = await asyncio.to_thread(engine.process.communicate)
    touched = json.loads(output.splitlines()[-1])["touched"]
    assert list(touched) == ["engine-step"]
    assert {"stoker.engine.ragged", "stoker.engine.mlx_batch", "stoker.engine.sampling"} <= set(touched["engine-step"])


async def test_a_cancelled_request_is_answered(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(step_s=0.005)) as engine:
        engine.client.submit(submit("a", max_tokens=10_000))
        await engine.heard.until(lambda: bool(engine.heard.tokens("a")))
        engine.client.cancel("a")
        await engine.heard.ended("a")
        last = engine.heard.events[-1]
        assert isinstance(last, Finished)
        assert last.reason is FinishReason.CANCELLED


async def test_memory_is_given_back_on_demand_and_the_bounds_of_work_are_heard(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(step_s=0.002)) as engine:
        engine.client.submit(submit("a", max_tokens=400))
        async with asyncio.timeout(DEADLINE_S):
            answers = await asyncio.gather(*(engine.client.reclaim(level) for level in (1, 3, 0)))
        assert [(done.epoch, done.level, done.freed_bytes) for done in answers] == [(1, 1, 0), (1, 3, 0), (1, 0, 0)]
        assert engine.client.tighten(Tighten(max_running=1))
        await engine.ask(submit("b"), submit("c"))


async def test_whoever_waits_for_memory_of_an_engine_that_dies_hears_of_it(tmp_path: Path) -> None:
    async with running_engine(tmp_path, simulated(Fault(kind="hang"))) as engine:
        engine.client.submit(submit("a"))
        await engine.heard.until(lambda: engine.heard.heartbeats[-1].waiting == 1)
        asked = asyncio.create_task(engine.client.reclaim(1))
        await asyncio.sleep(0)
        engine.process.kill()
        with pytest.raises(EngineUnavailable, match="before it had answered"):
            await asked
        with pytest.raises(EngineUnavailable, match="not ready"):
            await engine.client.reclaim(1)
        assert not engine.client.tighten(Tighten())
