"""Requests that nobody can serve: each gets its 4xx at once, with the field's name, and the next one is served."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stoker.service.schemas import MAX_MESSAGES, MAX_NESTING, MAX_TOOLS
from tests.service.rig import Rig, ask

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
DEADLINE_S = 20.0
"""Generous: what is measured is that nothing hangs, on a machine that others use too."""
USER = {"role": "user", "content": "x"}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "default", "messages": [USER]},
    TEXT: {"model": "default", "prompt": "x"},
    RESPONSES: {"model": "default", "input": "x"},
    MESSAGES: {"model": "default", "max_tokens": 8, "messages": [USER]},
    COUNT: {"model": "default", "messages": [USER]},
}


@dataclass(frozen=True)
class Malformed:
    """A body that is refused with `status`; `names` is what the message, and OpenAI's `param`, must name."""

    path: str
    body: bytes
    status: int
    names: str


def wrong(path: str, names: str, status: int | None = None, **more: Any) -> Malformed:
    """A body with these fields instead; Anthropic's API says 400 for wrong values, OpenAI's 422."""
    usual = 400 if path in {MESSAGES, COUNT} else 422
    return Malformed(path, json.dumps(BODIES[path] | more).encode(), status or usual, names)


def raw(path: str, field: str, value: str, names: str = "") -> Malformed:
    """A body with a value that no JSON library would write."""
    body = json.dumps(BODIES[path] | {field: "@"}).replace('"@"', value).encode("utf-8", "surrogatepass")
    return Malformed(path, body, 400 if not names or path in {MESSAGES, COUNT} else 422, names)


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def function(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f"} | more}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
WORDS = {"", "JSON", "object"}
"""Named in the message alone: there is no field, or it is part of a value."""
DEEP = "[" * 100_000 + "]" * 100_000

TABLE = [
    # What is no JSON at all, or none that could be an object.
    *(Malformed(path, b"", 400, "JSON") for path in BODIES),
    *(Malformed(path, b"{" * 5, 400, "JSON") for path in BODIES),
    Malformed(CHAT, b'\xff\xfe{"model"', 400, "JSON"),
    Malformed(MESSAGES, b'{"model": "\xc3\x28"}', 400, "JSON"),
    Malformed(CHAT, b"[]", 422, "object"),
    Malformed(RESPONSES, b'"text"', 422, "object"),
    Malformed(MESSAGES, b"null", 400, "object"),
    raw(CHAT, "messages", DEEP, ""),
    raw(MESSAGES, "tools", DEEP, ""),
    raw(CHAT, "user", '"\\ud800"', ""),
    # Numbers.
    raw(CHAT, "temperature", "NaN", "temperature"),
    raw(TEXT, "top_p", "Infinity", "top_p"),
    raw(MESSAGES, "temperature", "-Infinity", "temperature"),
    raw(CHAT, "max_tokens", "1e999", "max_tokens"),
    raw(CHAT, "seed", "9" * 5000, ""),
    wrong(CHAT, "max_tokens", max_tokens=-1),
    wrong(CHAT, "max_tokens", 400, max_tokens=10**30),
    wrong(CHAT, "seed", seed=2**64),
    wrong(CHAT, "n", n=0),
    wrong(CHAT, "n", n=10_000),
    wrong(CHAT, "top_logprobs", logprobs=True, top_logprobs=21),
    wrong(CHAT, "presence_penalty", presence_penalty=3),
    wrong(CHAT, "logit_bias.x", logit_bias={"x": 1}),
    wrong(CHAT, "logit_bias.5", logit_bias={"5": 1000}),
    wrong(TEXT, "logprobs", logprobs=6),
    wrong(TEXT, "prompt.0", prompt=[-1]),
    wrong(TEXT, "prompt.0", prompt=[5, 2**70]),
    wrong(RESPONSES, "max_output_tokens", max_output_tokens=0),
    wrong(MESSAGES, "max_tokens", max_tokens=0),
    wrong(MESSAGES, "max_tokens", 400, max_tokens=10**30),
    wrong(MESSAGES, "top_k", top_k=2**40),
    # Types.
    wrong(CHAT, "messages", messages="hello"),
    wrong(CHAT, "messages", messages={"role": "user"}),
    wrong(CHAT, "messages.0.content", messages=[{"role": "user", "content": 5}]),
    wrong(CHAT, "messages.0", messages=[{"role": "user"}]),
    wrong(CHAT, "messages.0.content.0.type", messages=[{"role": "user", "content": [{"type": ["text"]}]}]),
    wrong(CHAT, "messages.0.role", messages=[{"role": "wizard", "content": "x"}]),
    wrong(CHAT, "stream", stream="yes"),
    wrong(CHAT, "model", model=7),
    wrong(CHAT, "stop", stop=7),
    wrong(CHAT, "stop", stop=["x"] * 17),
    wrong(CHAT, "tools.0.function.name", tools=[function(name=None)]),
    wrong(CHAT, "tool_choice", tool_choice="sometimes"),
    wrong(CHAT, "tool_choice", tool_choice={"type": "function", "function": {"name": "absent"}}),
    wrong(CHAT, "response_format.type", response_format={"type": "yaml"}),
    wrong(CHAT, "response_format", response_format={"type": "json_schema"}),
    wrong(TEXT, "prompt", prompt={"text": "x"}),
    wrong(TEXT, "prompt", prompt=[]),
    wrong(RESPONSES, "input", input=7),
    wrong(RESPONSES, "input.0", input=[{"type": "telepathy"}]),
    wrong(RESPONSES, "truncation", truncation="middle"),
    wrong(MESSAGES, "system", system=5),
    wrong(MESSAGES, "stop_sequences", stop_sequences="x"),
    wrong(MESSAGES, "messages.0.role", messages=[{"role": "wizard", "content": "x"}]),
    wrong(MESSAGES, "tool_choice", tool_choice={"type": "tool"}),
    wrong(COUNT, "tools.0.input_schema", tools=[{"name": "f"}]),
    # What there is none of, or too much.
    *(wrong(path, "messages", messages=[]) for path in (CHAT, MESSAGES, COUNT)),
    wrong(RESPONSES, "input", input=[]),
    wrong(TEXT, "prompt", prompt=""),
    *(wrong(path, "messages", messages=[USER] * (MAX_MESSAGES + 1)) for path in (CHAT, MESSAGES, COUNT)),
    wrong(CHAT, "tools", tools=[function()] * (MAX_TOOLS + 1)),
    wrong(CHAT, "tools.0.function.parameters", tools=[function(parameters=nested(MAX_NESTING))]),
    wrong(MESSAGES, "tools.0.input_schema", tools=[{"name": "f", "input_schema": nested(MAX_NESTING)}]),
    wrong(CHAT, "messages", 400, messages=[{"role": "user", "content": "x" * 2_000_000}]),
    # What there is not, here or anywhere.
    *(wrong(path, "model", 404, model="gpt-99") for path in BODIES),
    *(wrong(path, "telepathy", 400, telepathy=True) for path in BODIES),
    wrong(CHAT, "messages.0.mood", 400, messages=[USER | {"mood": "good"}]),
    wrong(CHAT, "audio", 400, audio={"voice": "x"}),
    wrong(CHAT, "messages.0.content", messages=[{"role": "user", "content": [IMAGE]}]),
    wrong(MESSAGES, "image", messages=[{"role": "user", "content": [PICTURE]}]),
    wrong(MESSAGES, "mcp_servers", 400, mcp_servers=[{"url": "x"}]),
    wrong(RESPONSES, "previous_response_id", 404, previous_response_id="resp_absent"),
    wrong(RESPONSES, "background", 400, background=True),
]


def test_there_are_more_than_enough() -> None:
    assert len(TABLE) >= 60


@pytest.mark.timeout(180)
async def test_each_gets_its_refusal_and_the_next_request_an_answer(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        for case in TABLE:
            async with http.post(rig.url + case.path, data=io.BytesIO(case.body)) as response:
                answer = await response.json()
            shown = f"{case.path} {case.body[:200]!r}: {response.status} {answer}"
            assert response.status == case.status, shown
            error = answer["error"]
            assert case.names in f"{error['message']} {error.get('param')}", shown
            if case.path not in {MESSAGES, COUNT} and case.names not in WORDS:
                assert error["param"] == case.names, shown
    async with rig.post(ask(max_tokens=3)) as response:
        assert response.status == 200


async def test_a_body_of_twenty_megabytes_is_read_and_one_over_the_bound_is_not(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask("x" * 20_000_000)) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "context_length_exceeded"
    async with rig.post(b" " * 34_000_000) as response:
        assert response.status == 413
        assert (await response.json())["error"]["code"] == "request_too_large"
    async with rig.post(ask(max_tokens=3)) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    "headers", [{"x-long": "x" * 20_000}, {f"x-{number}": "x" for number in range(200)}], ids=["long", "many"]
)
async def test_headers_without_end_are_refused(make_rig: Callable[..., Rig], headers: dict[str, str]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask(), headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "unreadable_request"
    async with rig.post(ask(max_tokens=3)) as response:
        assert response.status == 200


NO_HTTP = [
    (b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer " + b"k" * 20_000 + b"\r\n\r\n", "8190 bytes"),
    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", "8190 bytes"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "another protocol"),
    (b"GET /v1/models HTTP/1.1\r\nno header\r\n\r\n", "another protocol"),
    (b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "another protocol"),
]


async def test_what_cannot_be_read_is_refused_in_json_and_not_written_down(
    make_rig: Callable[..., Rig], tmp_path: Path
) -> None:
    rig = make_rig()
    log = tmp_path / "service.log"
    await rig.start_service(log=log)
    for sent, says in NO_HTTP:
        head, body = await answer_to(rig, sent)
        assert head.split()[1] == b"400", sent
        assert b"application/json" in head
        error = json.loads(body)["error"]
        assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "unreadable_request", None)
        assert says in error["message"], sent
    async with rig.post(b"no gzip", headers={"Content-Encoding": "gzip"}) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "unreadable_request"
    written = log.read_text()
    assert written.count("request_unreadable") == len(NO_HTTP)
    assert "kkkk" not in written
    assert all(json.loads(line) for line in written.splitlines())


async def answer_to(rig: Rig, sent: bytes) -> tuple[bytes, bytes]:
    """Head and body of what comes back before the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(sent)
    async with asyncio.timeout(DEADLINE_S):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head, body
