"""The promise: a client never notices the engine dying. The long form of the first test is `make chaos`."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from stoker.service.quarantine import ACCUSED_AT
from tests.chaos.run import as_json, run_chaos, show
from tests.e2e.chatting import Chat, ChatFailed, ask, chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED

BODY = chat_body("Anybody there?", seed=1, max_tokens=9, stream=True)
ROOMY = "[watchdog.restart]\nintensity = 1000\nbackoff_max_s = 0.1\n"


@pytest.mark.model
@pytest.mark.timeout(400)
def test_eight_clients_do_not_notice_an_engine_that_is_killed_again_and_again(demo_model: Path, tmp_path: Path) -> None:
    findings = run_chaos(demo_model, tmp_path / "home", seconds=18, seed=7, distinct=10, kill_every_s=(3.0, 6.0))
    show(as_json(findings), Console())
    assert findings.problems() == []


@pytest.mark.model
@pytest.mark.timeout(300)
async def test_a_long_prefill_is_never_mistaken_for_a_stall(demo_model: Path, serve_tree: ServeTree) -> None:
    tree = serve_tree(
        f'[engine]\nmodel = "{demo_model}"\n[server]\nport = 0\n[watchdog]\nport = 0\nstall_after_s = 3.0\n'
    )
    prompt = "Consider every one of these words with care. " * 330
    chat = Chat(tree.api, chat_body(prompt, max_tokens=2, temperature=0))
    async with aiohttp.ClientSession() as http:
        await chat.run(http)
    assert chat.usage["prompt_tokens"] >= 3000
    assert tree.engine().restarts == 0


@pytest.mark.parametrize("fault", ["crash", "hang"])
async def test_a_request_that_kills_or_hangs_the_engine_fails_alone_and_seven_others_do_not_notice(
    serve_tree: ServeTree, fault: str
) -> None:
    tree = serve_tree(
        SIMULATED
        + "stall_after_s = 1.0\n"
        + ROOMY
        + "[engine.simulated]\nstep_s = 0.01\n"
        + f'faults = [{{ kind = "{fault}", prompt_contains = "poison", after_tokens = 5 }}]'
    )
    bodies = [chat_body(f"innocent {n}", seed=n, max_tokens=100, stream=n % 2 == 0) for n in range(7)]
    poison = asyncio.create_task(ask(tree.api, chat_body("poison", seed=1, max_tokens=100, stream=True)))
    innocents = await asyncio.gather(*(ask(tree.api, body) for body in bodies))
    with pytest.raises(ChatFailed, match="request_quarantined"):
        await poison
    # At most one engine more than it takes to condemn it: the last one is its own.
    assert tree.engine().restarts <= ACCUSED_AT + 1
    assert innocents == await asyncio.gather(*(ask(tree.api, body) for body in bodies))


@pytest.mark.parametrize("seed", range(2))
async def test_kills_at_any_moment_of_the_engines_life_are_no_more_than_a_pause(
    serve_tree: ServeTree, seed: int
) -> None:
    """While it starts, loads, prefills and decodes, again and again, with streams open the whole time."""
    tree = serve_tree(SIMULATED + ROOMY + "[engine.simulated]\nload_s = 0.2\nstep_s = 0.02\n")
    bodies = [chat_body(f"stream {n}", seed=n, max_tokens=80, stream=n % 2 == 0) for n in range(4)]
    answers = [asyncio.create_task(ask(tree.api, body)) for body in bodies]
    draw = random.Random(seed)
    for _ in range(8):
        await asyncio.sleep(draw.uniform(0.0, 0.8))
        if (pid := tree.engine().pid) is not None:
            os.kill(pid, draw.choice((signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)))
    texts = await asyncio.gather(*answers)
    assert texts == await asyncio.gather(*(ask(tree.api, body) for body in bodies))


async def test_a_service_killed_while_the_engine_loads_is_back_before_the_engine_is(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + ROOMY + "[engine.simulated]\nload_s = 2.0\n")
    status = tree.client.status()
    for pid in (status.engines[0].pid, status.service.pid):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    # The request comes while there is neither, waits in the socket's queue, and is told what is the matter.
    with pytest.raises(ChatFailed, match=r"503 .*engine_loading"):
        await ask(tree.api, BODY)
    engine = await asyncio.to_thread(tree.until_ready, status.engines[0].epoch + 1)
    assert (engine.restarts, tree.client.status().service.restarts) == (1, 1)
    assert await ask(tree.api, BODY)
