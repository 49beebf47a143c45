"""Frames survive the socket whole, and broken ones are told apart from a closed connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine import wire
from stoker.engine.errors import FrameError
from stoker.engine.protocol import (
    Cancel,
    Finished,
    FinishReason,
    FromEngine,
    Prefill,
    Reclaim,
    RejectCode,
    Rejected,
    Sampling,
    StepEvents,
    Submit,
    Tighten,
    Timings,
    ToEngine,
    Tokens,
)

counts = st.integers(0, 2**31)
ids = st.lists(counts, max_size=20)
requests = st.one_of(
    st.builds(Cancel, id=st.text()),
    st.builds(Reclaim, level=st.integers(0, 3)),
    st.builds(Tighten, max_running=st.none() | st.integers(1, 100), speculate=st.booleans()),
    st.builds(
        Submit,
        id=st.text(),
        prompt=ids,
        emitted=ids,
        sampling=st.builds(Sampling, seed=st.integers(0, 2**63 - 1), temperature=st.floats(0, 2)),
        max_tokens=st.integers(1, 10_000),
        stop_ids=ids,
    ),
)
events = st.one_of(
    st.builds(Prefill, id=st.text(), done=counts, total=counts, cached=counts),
    st.builds(Tokens, id=st.text(), position=st.integers(0, 2**31), ids=ids),
    st.builds(Rejected, id=st.text(), code=st.sampled_from(RejectCode), message=st.text()),
    st.builds(Finished, id=st.text(), reason=st.sampled_from(FinishReason), timings=st.just(Timings(0.1, 0.2, 0.3, 4))),
)
replies = st.builds(StepEvents, epoch=st.integers(0, 2**31), events=st.lists(events, max_size=5))


def fed(data: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return stream


@given(st.lists(requests, max_size=5))
def test_requests_arrive_as_they_were_sent(words: list[ToEngine]) -> None:
    async def exchange() -> None:
        reader = wire.reader_of_requests(fed(b"".join(wire.encode(word) for word in words)))
        for word in words:
            assert await reader.read() == word
        assert await reader.read() is None

    asyncio.run(exchange())


@given(replies)
def test_events_arrive_as_they_were_sent(word: FromEngine) -> None:
    async def exchange() -> None:
        assert await wire.reader_of_events(fed(wire.encode(word))).read() == word

    asyncio.run(exchange())


@given(st.data())
def test_a_frame_cut_anywhere_is_an_error(data: st.DataObject) -> None:
    frame = wire.encode(Cancel(id="abc"))
    cut = data.draw(st.integers(1, len(frame) - 1))

    async def exchange() -> None:
        with pytest.raises(FrameError, match="inside a frame"):
            await wire.reader_of_requests(fed(frame[:cut])).read()

    asyncio.run(exchange())


@given(st.binary(max_size=64))
def test_bytes_that_are_no_word_are_an_error(body: bytes) -> None:
    async def exchange() -> None:
        with pytest.raises(FrameError):
            await wire.reader_of_requests(fed(struct.pack(">I", len(body)) + body)).read()

    asyncio.run(exchange())


async def test_an_announced_giant_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameError, match="over the bound"):
        await wire.reader_of_requests(fed(struct.pack(">I", wire.MAX_FRAME_BYTES + 1))).read()


def test_a_giant_is_not_sent() -> None:
    with pytest.raises(FrameError, match="over the bound"):
        wire.encode(Cancel(id="x" * (wire.MAX_FRAME_BYTES + 1)))


async def test_a_word_of_the_other_direction_is_an_error() -> None:
    frame = wire.encode(StepEvents(epoch=1, events=[]))
    with pytest.raises(FrameError):
        await wire.reader_of_requests(fed(frame)).read()


async def test_unknown_fields_are_an_error() -> None:
    body = msgspec.msgpack.encode({"type": "Cancel", "id": "a", "why": "?"})
    with pytest.raises(FrameError, match="why"):
        await wire.reader_of_requests(fed(struct.pack(">I", len(body)) + body)).read()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_word_into_a_connection_that_is_gone_is_lost_quietly(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def speak() -> None:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_unix_connection(sock=ours)
        theirs.close()
        writer.transport.abort()
        await asyncio.sleep(0)
        wire.say(writer, Cancel(id="nobody hears this"))

    run(speak())
