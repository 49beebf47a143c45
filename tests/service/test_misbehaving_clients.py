"""Clients that leave, and clients that do not read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest

from stoker.config import Server, Simulated
from tests.service.rig import Rig, ask, events, raw_connection, text_of

CANCELLED = "stoker_requests_cancelled_total"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_engine_stops_for_a_client_that_left(make_rig: Callable[..., Rig], stream: bool) -> None:
    # At this pace the shortest answer takes twenty seconds, so the batch is empty only if it was cancelled.
    rig = make_rig(simulated=Simulated(step_s=0.5))
    await rig.start()
    async with raw_connection(rig, ask(stream=stream)) as client:
        await rig.until_metric("stoker_engine_batch_size", 1)
        if stream:
            assert await asyncio.get_running_loop().sock_recv(client, 15) == b"HTTP/1.1 200 OK"
    await rig.until_metric(CANCELLED, 1)
    await rig.until_metric("stoker_engine_batch_size", 0)
    await rig.until_metric('stoker_requests_total{code="499",endpoint="/v1/chat/completions",model="tiny"}', 1)


async def test_a_client_that_left_while_the_engine_was_away_is_not_resumed(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    await rig.kill_engine()
    async with raw_connection(rig, ask()):
        await rig.until_metric("stoker_requests_waiting", 1)
    await rig.until_metric("stoker_requests_waiting", 0)
    await rig.start_engine()
    assert await rig.metric("stoker_requests_running") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="relies on how Linux bounds socket buffers")
async def test_a_client_that_does_not_read_is_cut_and_slows_nobody(make_rig: Callable[..., Rig]) -> None:
    # The model's name is in every chunk: a long one fills the buffers of sockets and server within one answer.
    rig = make_rig(
        server=Server(max_buffered_events=32),
        simulated=Simulated(step_s=0.005),
        model_name="m" * 30_000,
        send_buffer_bytes=64 * 1024,
    )
    await rig.start()
    async with raw_connection(rig, ask(stream=True), receive_buffer_bytes=4096) as client:
        async with rig.post(ask(stream=True)) as response:
            assert len(await text_of(events(response))) > 50
        await rig.until_metric(CANCELLED, 1)
        received = bytearray()
        while data := await asyncio.get_running_loop().sock_recv(client, 65536):
            received += data
    assert b"[DONE]" not in received
    assert not received.endswith(b"\r\n0\r\n\r\n"), "a cut stream must not look complete"
