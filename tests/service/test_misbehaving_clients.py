"""Clients that leave, and clients that do not read."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

import pytest

from stoker.config import Server, Simulated
from tests.service.rig import DEADLINE_S, Rig, ask, events, raw_connection, text_of

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


def rig_with_small_buffers(make_rig: Callable[..., Rig], deadline_s: float) -> Rig:
    """The model's name is in every chunk: a long one fills the buffers of sockets and server within one answer."""
    return make_rig(
        server=Server(max_buffered_events=32, slow_reader_deadline_s=deadline_s),
        simulated=Simulated(step_s=0.005),
        model_name="m" * 30_000,
        send_buffer_bytes=64 * 1024,
    )


only_linux = pytest.mark.skipif(sys.platform != "linux", reason="relies on how Linux bounds socket buffers")


@only_linux
async def test_a_client_that_reads_late_pauses_its_own_request_and_gets_all_of_it(make_rig: Callable[..., Rig]) -> None:
    rig = rig_with_small_buffers(make_rig, deadline_s=300.0)
    await rig.start()
    async with rig.post(ask(stream=True)) as response:
        expected = await text_of(events(response))
    async with raw_connection(rig, ask(stream=True), receive_buffer_bytes=4096) as client:
        await rig.until_metric("stoker_engine_batch_size", 1)
        # Its row is free for others, though it has not ended.
        await rig.until_metric("stoker_engine_batch_size", 0)
        async with rig.post(ask(stream=True)) as response:
            assert await text_of(events(response)) == expected
        received = bytearray()
        async with asyncio.timeout(DEADLINE_S):
            while not received.endswith(b"\r\n0\r\n\r\n"):
                received += await asyncio.get_running_loop().sock_recv(client, 65536)
    assert text_in(bytes(received)) == expected
    assert await rig.metric(CANCELLED) == 0


def text_in(received: bytes) -> str:
    """The text of a raw chunked answer to a request that closes its connection."""
    body = received.partition(b"\r\n\r\n")[2]
    content = bytearray()
    while body:
        size, _, rest = body.partition(b"\r\n")
        content += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    lines = [line for line in content.split(b"\n") if line.startswith(b"data: {")]
    chunks = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


@only_linux
async def test_a_client_that_does_not_read_at_all_is_cut_in_the_end(make_rig: Callable[..., Rig]) -> None:
    rig = rig_with_small_buffers(make_rig, deadline_s=0.5)
    await rig.start()
    async with raw_connection(rig, ask(stream=True), receive_buffer_bytes=4096) as client:
        await rig.until_metric(CANCELLED, 1)
        received = bytearray()
        while data := await asyncio.get_running_loop().sock_recv(client, 65536):
            received += data
    assert b"[DONE]" not in received
    assert not received.endswith(b"\r\n0\r\n\r\n"), "a cut stream must not look complete"
