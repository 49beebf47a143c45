"""The end of the process: streams finish, new requests are turned away, and nothing waits for nothing."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

from stoker.config import Server, Simulated
from stoker.process import EXIT_UNUSABLE
from tests.service.rig import Rig, ask, delta, events, text_of


async def test_a_running_stream_finishes_and_a_new_request_is_turned_away(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(step_s=0.01))
    await rig.start()
    assert rig.service is not None
    async with rig.post(ask(stream=True)) as response:
        stream = events(response)
        await text_of(stream, at_least=1)
        rig.service.send_signal(signal.SIGTERM)
        await rig.until_status("/health/ready", 503)
        assert json.loads((await rig.get("/health/ready"))[1])["reason"] == "shutting_down"
        async with rig.post(ask()) as refused:
            assert refused.status == 503
            assert refused.headers["Connection"] == "close"
            assert "Retry-After" in refused.headers
            assert (await refused.json())["error"]["code"] == "shutting_down"
        *_, last = [event async for event in stream]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert await rig.service.wait() == 0


async def test_a_stream_that_is_too_long_is_told_why_it_ends(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(drain_deadline_s=0.2), simulated=Simulated(step_s=0.5))
    await rig.start()
    assert rig.service is not None
    async with rig.post(ask(stream=True)) as response:
        stream = events(response)
        await anext(stream)
        rig.service.send_signal(signal.SIGTERM)
        *_, last = [event async for event in stream]
    assert last["error"]["code"] == "shutting_down"
    assert delta(last) == ""
    assert await rig.service.wait() == 0


async def test_it_ends_with_its_parent(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    service = await rig.start_service()
    assert service.stdin is not None
    service.stdin.close()
    assert await service.wait() == 0


async def test_a_folder_that_holds_no_tokenizer_cannot_be_helped_by_a_restart(
    make_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    rig = make_rig(model_path=tmp_path / "nothing")
    log = tmp_path / "service.log"
    service = await rig.start_service(log=log)
    assert await service.wait() == EXIT_UNUSABLE
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["event"] == "unusable"
    assert "nothing" in last["error"]
