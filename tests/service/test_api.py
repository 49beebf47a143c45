"""The API over HTTP, with the official client library and by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from stoker.config import Server, Simulated
from tests.service.rig import Rig, ask, delta, events, text_of
from tests.service.templates import with_template

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
async def rig(make_rig: Callable[..., Rig]) -> Rig:
    rig = make_rig()
    await rig.start()
    return rig


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=rig.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_the_official_library_gets_a_whole_answer(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=9)
    choice = answer.choices[0]
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "tiny"
    assert answer.system_fingerprint is not None
    assert (choice.finish_reason, choice.message.role, len(choice.message.content or "")) == ("length", "assistant", 9)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 9
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 9
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_the_official_library_streams_the_same_text(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model="tiny", messages=MESSAGES, seed=3)
    stream = await client.chat.completions.create(
        model="default", messages=MESSAGES, seed=3, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    first, *_, last, usage = chunks
    assert first.choices[0].delta.role == "assistant"
    assert last.choices[0].finish_reason == "stop"
    assert usage.usage == whole.usage
    assert usage.choices == []
    texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert len({chunk.id for chunk in chunks}) == 1


async def test_the_official_library_works_without_asyncio(rig: Rig) -> None:
    def talk() -> tuple[str, str]:
        with OpenAI(base_url=rig.url + "/v1", api_key="none", max_retries=0) as client:
            whole = client.chat.completions.create(model="tiny", messages=MESSAGES, seed=3)
            chunks = client.chat.completions.create(model="tiny", messages=MESSAGES, seed=3, stream=True)
            streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        return whole.choices[0].message.content or "", streamed

    whole, streamed = await asyncio.to_thread(talk)
    assert whole == streamed != ""


async def test_the_official_library_lists_models(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["tiny"]
    assert (await client.models.retrieve("default")).id == "tiny"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other/model")


async def test_errors_become_the_exceptions_of_the_official_library(client: AsyncOpenAI) -> None:
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError, match="tiny") as not_found:
        await create(model="gpt", messages=MESSAGES)
    assert (not_found.value.code, not_found.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.UnprocessableEntityError, match="temperature"):
        await create(model="tiny", messages=MESSAGES, temperature=3)
    with pytest.raises(openai.BadRequestError) as unsupported:
        await create(model="tiny", messages=MESSAGES, store=True)
    assert (unsupported.value.code, unsupported.value.param) == ("unsupported_parameter", "store")
    with pytest.raises(openai.BadRequestError, match=r"32768 tokens .* 40018 tokens") as too_long:
        await create(model="tiny", messages=[{"role": "user", "content": "x" * 40_000}])
    assert too_long.value.code == "context_length_exceeded"
    assert too_long.value.request_id


async def test_a_stop_string_ends_the_answer_before_it(rig: Rig) -> None:
    async with rig.post(ask()) as response:
        whole = (await response.json())["choices"][0]["message"]["content"]
    stop = whole[20:23]
    expected = whole[: whole.index(stop)]
    async with rig.post(ask(stop=stop)) as response:
        answer = await response.json()
    assert answer["choices"][0]["message"]["content"] == expected
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == len(expected) + len(stop)
    async with rig.post(ask(stop=["never", stop], stream=True)) as response:
        received = [event async for event in events(response)]
    assert "".join(delta(event) for event in received) == expected
    assert received[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_stream_is_server_sent_events_to_the_letter(rig: Rig) -> None:
    async with rig.post(ask(stream=True, max_tokens=3)) as response:
        assert response.content_type == "text/event-stream"
        assert response.headers["x-request-id"].startswith("req_")
        body = await response.text()
    *parts, end = body.split("\n\n")
    assert end == ""
    assert parts[-1] == "data: [DONE]"
    assert parts[-2].startswith(": server-timing queue;dur=")
    assert all(json.loads(part.removeprefix("data: "))["object"] == "chat.completion.chunk" for part in parts[:-2])


async def test_what_does_not_exist_is_refused_in_the_same_form(rig: Rig) -> None:
    status, text = await rig.get("/v1/chat")
    assert (status, json.loads(text)["error"]["code"]) == (404, "not_found")
    status, text = await rig.get("/v1/chat/completions")
    assert (status, json.loads(text)["error"]["code"]) == (405, "method_not_allowed")


async def test_a_body_over_the_bound_is_refused(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(max_body_bytes=1000))
    await rig.start()
    status, error = await rig.error(ask("x" * 1000))
    assert (status, error["code"]) == (413, "request_too_large")
    status, error = await rig.error(b"{")
    assert (status, error["code"]) == (400, "invalid_json")


async def test_one_request_too_many_is_told_to_come_back(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(max_queue=1), simulated=Simulated(step_s=0.02))
    await rig.start()
    async with rig.post(ask(stream=True)) as first:
        await text_of(events(first), at_least=1)
        async with rig.post(ask()) as second:
            assert second.status == 429
            assert int(second.headers["Retry-After"]) > 0
            assert (await second.json())["error"]["code"] == "queue_full"
    assert await rig.metric('stoker_requests_shed_total{reason="queue_full"}') == 1


async def test_before_the_first_engine_is_there_it_says_so(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start_service()
    status, text = await rig.get("/health/ready")
    assert (status, json.loads(text)["reason"]) == (503, "engine_loading")
    async with rig.post(ask()) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0
        assert (await response.json())["error"]["code"] == "engine_loading"


async def test_an_error_nobody_foresaw_is_logged_without_the_prompt_and_answered_without_the_cause(
    make_rig: Callable[..., Rig], tiny_model: Path, tmp_path: Path
) -> None:
    broken = with_template(tiny_model, tmp_path / "broken", "{{ messages[0]['content'] + 1 }}")
    log = tmp_path / "service.log"
    rig = make_rig(model_path=broken)
    await rig.start_service(log=log)
    await rig.start_engine()
    status, error = await rig.error(ask("a secret"))
    assert (status, error["code"]) == (500, "internal_error")
    assert "concatenate" not in error["message"]
    assert "concatenate" in log.read_text()
    assert "a secret" not in log.read_text()


async def test_metrics_count_requests_and_relay_the_engine(rig: Rig) -> None:
    async with rig.post(ask(max_tokens=4)):
        pass
    series = 'stoker_requests_total{code="200",endpoint="/v1/chat/completions",model="tiny"}'
    assert await rig.metric(series) == 1
    assert await rig.metric("stoker_generated_tokens_total") == 4
    assert await rig.metric("stoker_time_to_first_token_seconds_count") == 1
    assert await rig.metric("stoker_requests_running") == 0
    await rig.until_metric("stoker_engine_batch_size", 0)
    memory = await rig.metric('stoker_engine_memory_bytes{kind="footprint"}')
    assert memory is not None
    assert memory > 0
    assert await rig.metric('stoker_engine_memory_bytes{kind="limit"}') is None, "absent is absent"


async def test_metrics_are_open_metrics_for_those_who_ask(rig: Rig) -> None:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with aiohttp.ClientSession() as http, http.get(rig.url + "/metrics", headers=headers) as response:
        assert response.content_type == "application/openmetrics-text"
        assert (await response.text()).endswith("# EOF\n")
