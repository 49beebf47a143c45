"""The feed between ledger and reader."""

from __future__ import annotations

import asyncio

import pytest

from stoker.engine.protocol import FinishReason
from stoker.service.entry import Prefix
from stoker.service.errors import EngineUnavailable, SlowReader
from stoker.service.stream import Batch, Feed

LONG_S = 20.0


def never() -> None:
    pytest.fail("nobody is stuck")


async def test_a_reader_gets_at_once_all_that_came_since_it_looked() -> None:
    feed = Feed(10, never)
    feed.tokens([1], [])
    feed.tokens([2, 3], [])
    assert await feed.next(LONG_S) == Batch([1, 2, 3], [], None)
    feed.tokens([4], [])
    feed.finished(FinishReason.STOP)
    assert await feed.next(LONG_S) == Batch([4], [], FinishReason.STOP)


async def test_a_reader_that_waits_is_woken() -> None:
    feed = Feed(10, never)
    reading = asyncio.create_task(feed.next(LONG_S))
    await asyncio.sleep(0)
    feed.tokens([1], [])
    assert await reading == Batch([1], [], None)


async def test_silence_is_told_after_patience_has_run_out() -> None:
    assert await Feed(10, never).next(0.001) is None


async def test_the_engine_having_begun_is_news_without_tokens() -> None:
    feed = Feed(10, never)
    feed.started(Prefix(cached=3))
    assert await feed.next(LONG_S) == Batch([], [], None)
    assert feed.prefix == Prefix(cached=3)


async def test_an_error_comes_after_the_tokens_before_it() -> None:
    feed = Feed(10, never)
    feed.tokens([1], [])
    feed.failed(EngineUnavailable("gone"))
    assert await feed.next(LONG_S) == Batch([1], [], None)
    with pytest.raises(EngineUnavailable):
        await feed.next(LONG_S)


async def test_a_feed_that_is_full_says_so_and_keeps_what_was_on_its_way() -> None:
    feed = Feed(2, never)
    assert feed.tokens([1], [])
    assert not feed.tokens([2], [])
    assert not feed.tokens([3], [])
    assert await feed.next(LONG_S) == Batch([1, 2, 3], [], None)
    assert feed.tokens([4], []), "a reader that has caught up has room again"


async def test_a_reader_that_is_given_up_is_cut_off() -> None:
    cuts: list[str] = []
    feed = Feed(2, lambda: cuts.append("cut"))
    feed.failed(EngineUnavailable("gone"))
    assert cuts == []
    feed.failed(SlowReader("too slow"))
    assert cuts == ["cut"]
