"""The heart of it: the engine dies, and the client does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stoker.config import Server, Simulated
from tests.service.rig import Rig, ask, events, text_of


async def undisturbed(rig: Rig, text: str) -> str:
    async with rig.post(ask(text)) as response:
        answer = await response.json()
    content = answer["choices"][0]["message"]["content"]
    assert isinstance(content, str)
    return content


async def streamed(rig: Rig, text: str, begun: asyncio.Event | None = None) -> str:
    """The whole text; `begun` is set once some of it is there."""
    async with rig.post(ask(text, stream=True)) as response:
        stream = events(response)
        beginning = await text_of(stream, at_least=5)
        if begun is not None:
            begun.set()
        return beginning + await text_of(stream)


async def test_a_stream_goes_on_exactly_after_its_engine_was_killed_three_times(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(step_s=0.003))
    await rig.start()
    expected = await undisturbed(rig, "A long one, please.")
    assert len(expected) > 100
    async with rig.post(ask("A long one, please.", stream=True)) as response:
        stream = events(response)
        text = ""
        for _ in range(3):
            text += await text_of(stream, at_least=20)
            await rig.kill_engine()
            await rig.start_engine()
        text += await text_of(stream)
    assert text == expected
    assert await rig.metric('stoker_request_resumes_total{outcome="resumed"}') == 3
    assert await rig.metric("stoker_resume_gap_seconds_count") == 3


async def test_what_an_answer_used_is_counted_once_however_many_engines_it_took(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(step_s=0.005))
    await rig.start()
    asked = ask("A long one, please.")
    async with rig.post(asked) as response:
        undisturbed = (await response.json())["usage"]

    async def interrupted() -> dict[str, object]:
        async with rig.post(asked) as response:
            assert "resume;desc=" in response.headers["server-timing"]
            usage = (await response.json())["usage"]
            assert isinstance(usage, dict)
            return usage

    again = asyncio.create_task(interrupted())
    await rig.until_metric("stoker_requests_running", 1)
    for _ in range(2):
        await rig.kill_engine()
        await rig.start_engine()
    assert await again == undisturbed


async def test_many_streams_and_a_whole_answer_survive_the_same_death(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(step_s=0.002), max_running=3)
    await rig.start()
    questions = [f"Question {number}" for number in range(6)]
    expected = await asyncio.gather(*(undisturbed(rig, question) for question in questions))
    begun = asyncio.Event()
    streams = [asyncio.create_task(streamed(rig, question, begun)) for question in questions]
    whole = asyncio.create_task(undisturbed(rig, questions[0]))
    await begun.wait()
    await rig.kill_engine()
    await rig.start_engine()
    assert await asyncio.gather(*streams) == expected
    assert await whole == expected[0]


async def test_a_request_that_arrives_while_the_engine_restarts_waits_for_it(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    expected = await undisturbed(rig, "Hello")
    await rig.kill_engine()
    waiting = asyncio.create_task(undisturbed(rig, "Hello"))
    await rig.until_metric("stoker_requests_waiting", 1)
    await rig.start_engine()
    assert await waiting == expected


async def test_a_waiting_stream_is_kept_alive_with_comments(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(keepalive_s=0.05))
    await rig.start()
    await rig.kill_engine()
    async with rig.post(ask(stream=True)) as response:
        lines = [await response.content.readline() for _ in range(6)]
        assert lines.count(b": keep-alive\n") == 2
        await rig.start_engine()
        assert await text_of(events(response))


async def test_a_stream_whose_engine_does_not_come_back_ends_with_an_error(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(resume_deadline_s=0.5), simulated=Simulated(step_s=0.02))
    await rig.start()
    whole = asyncio.create_task(rig.error(ask()))
    async with rig.post(ask(stream=True)) as response:
        stream = events(response)
        await text_of(stream, at_least=3)
        await rig.kill_engine()
        *_, last = [event async for event in stream]
    assert last["error"]["code"] == "engine_unavailable"
    status, error = await whole
    assert (status, error["code"]) == (503, "engine_unavailable")
    assert await rig.metric('stoker_request_resumes_total{outcome="expired"}') == 2
    status, error = await rig.error(ask())
    assert (status, error["code"]) == (503, "engine_unavailable"), "it has been gone for too long to wait for"
    assert await rig.metric('stoker_requests_shed_total{reason="engine_unavailable"}') == 1


async def test_nothing_of_a_dead_engine_is_exported(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    await rig.until_metric("stoker_engine_batch_size", 0)
    await rig.kill_engine()
    assert await rig.metric("stoker_engine_batch_size") is None
    assert await rig.metric('stoker_engine_memory_bytes{kind="active"}') is None


async def test_counts_go_on_from_one_engine_to_the_next(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    for lookups in (1, 2):
        async with rig.post(ask(max_tokens=5)) as response:
            await response.json()
        await rig.until_metric("stoker_prefix_cache_lookups_total", lookups)
        await rig.kill_engine()
        assert await rig.metric("stoker_prefix_cache_lookups_total") == lookups
        await rig.start_engine()


async def test_a_service_that_was_killed_is_back_behind_the_same_door_with_the_same_engine(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig()
    await rig.start()
    expected = await undisturbed(rig, "Hello")
    assert rig.service is not None
    rig.service.kill()
    await rig.service.wait()
    knocking = asyncio.create_task(rig.get("/health/live"))
    await rig.start_service()
    assert (await knocking)[0] == 200, "who came in between waited in the listening socket's queue"
    await rig.until_status("/health/ready", 200)
    assert await undisturbed(rig, "Hello") == expected
