"""The client says by how much it was late itself, and when that is seen in the figures."""

from __future__ import annotations

import asyncio
import time

from stoker.soak.lag import Lag, Probe, lag_of


def test_a_client_in_time_says_that_it_did_not_limit() -> None:
    lag = lag_of([0.001] * 1000)
    assert not lag.bottleneck
    assert "did not limit" in lag.sentence()


def test_a_client_that_is_late_in_more_than_one_of_a_hundred_is_the_bottleneck() -> None:
    lag = lag_of([0.001] * 980 + [0.05] * 20)
    assert lag.bottleneck
    assert "THE BOTTLENECK" in lag.sentence()


def test_of_nothing_no_lag_is_known() -> None:
    assert lag_of([]) == Lag()


async def test_a_busy_event_loop_is_seen() -> None:
    probe = Probe()
    probing = asyncio.create_task(probe.run())
    for _ in range(5):
        await asyncio.sleep(0)
        time.sleep(0.05)  # noqa: ASYNC251  # what is to be found: work that keeps the loop from reading
    await asyncio.sleep(0.02)
    probing.cancel()
    assert probe.lag().worst_s > 0.03
