"""What a collector gets of a request: the whole tree, with parents, times that nest and attributes as declared."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from stoker.config import Fault, Server, Simulated, Telemetry
from stoker.service import telemetry
from tests.service.collector import Collector, Tree, attributes, grpc_collector, http_collector
from tests.service.rig import ADMIN_TOKEN, CHAT, Rig, ask, events, text_of

MakeRig = Callable[..., Rig]
KEPT = ["POST /v1/chat/completions", "chat tiny", "stoker.decode", "stoker.prefill", "stoker.queue", "stoker.tokenize"]
CALLERS_TRACE, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
DECLARED = {value for name, value in vars(telemetry).items() if name.isupper()}


def settings(collector: Collector, **more: object) -> Telemetry:
    return Telemetry.model_validate({"otlp_endpoint": collector.url, "otlp_protocol": "http"} | more)


async def tree_of(rig: Rig, collector: Collector, response: aiohttp.ClientResponse) -> Tree:
    """The trace of an answer that was read to its end."""
    trace_id = bytes.fromhex(response.headers["traceparent"].split("-")[1])
    collector.until_root()
    tree = Tree(collector.spans, trace_id)
    tree.check_nesting()
    for span in tree.spans:
        assert set(attributes(span)) <= DECLARED
        assert {event.name for event in span.events} <= DECLARED
    return tree


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_request_is_sent_as_a_whole_tree(make_rig: MakeRig, protocol: str) -> None:
    with (http_collector if protocol == "http" else grpc_collector)() as collector:
        rig = make_rig(telemetry=settings(collector, otlp_protocol=protocol, otlp_headers={"x-key": "open"}))
        await rig.start()
        async with rig.post(ask(stream=True, max_tokens=20, temperature=0.5, stop=["zzz"])) as response:
            await text_of(events(response))
        tree = await tree_of(rig, collector, response)
        assert tree.names() == sorted([*KEPT, "stoker.stream"])
        assert collector.headers["x-key"] == "open"
        assert tree.path(tree.one("stoker.queue")) == [*KEPT[:2], "stoker.queue"]
        root, chat = attributes(tree.root), attributes(tree.one("chat tiny"))
        assert root[telemetry.REQUEST_ID] == response.headers["x-request-id"]
        assert (root[telemetry.HTTP_ROUTE], root[telemetry.HTTP_STATUS]) == (CHAT, 200)
        assert chat[telemetry.USAGE_OUTPUT] == chat[telemetry.REQUEST_MAX_TOKENS] == 20
        assert chat[telemetry.REQUEST_TEMPERATURE] == 0.5
        assert chat[telemetry.REQUEST_STOP_SEQUENCES] == ["zzz"]
        assert chat[telemetry.REQUEST_STREAM] is True
        assert chat[telemetry.RESPONSE_ID].startswith("chatcmpl-")
        assert chat[telemetry.RESPONSE_FINISH_REASONS] == ["length"]
        assert chat[telemetry.LATENCY_FIRST_TOKEN] <= chat[telemetry.LATENCY_E2E]
        assert telemetry.INPUT_MESSAGES not in chat, "what was said is nobody's business"
        prefill = tree.one("stoker.prefill")
        assert prefill.events[-1].name == telemetry.CHUNK
        assert attributes(prefill)[telemetry.PREFILL_TOTAL] == chat[telemetry.USAGE_INPUT]
        assert [event.name for event in tree.one("stoker.decode").events] == [telemetry.FIRST_TOKEN]


async def test_a_callers_trace_is_continued(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        rig = make_rig(telemetry=settings(collector, sample_ratio=0.0))
        await rig.start()
        headers = {"traceparent": f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-01"}
        async with rig.post(ask(max_tokens=3), headers=headers) as response:
            await response.json()
        tree = await tree_of(rig, collector, response)
        assert tree.root.trace_id.hex() == CALLERS_TRACE
        assert tree.root.parent_span_id.hex() == CALLERS_SPAN
        _, trace, span, flags = response.headers["traceparent"].split("-")
        assert (trace, span, flags) == (CALLERS_TRACE, tree.root.span_id.hex(), "01")


async def test_what_its_caller_does_not_sample_is_not_sent(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        rig = make_rig(telemetry=settings(collector))
        await rig.start()
        headers = {"traceparent": f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-00"}
        async with rig.post(ask(max_tokens=3), headers=headers) as response:
            await response.json()
        assert response.headers["traceparent"].endswith("-00")
        async with rig.post(ask(max_tokens=3)) as response:
            await response.json()
        collector.until_root()
        assert CALLERS_TRACE not in {span.trace_id.hex() for span in collector.spans}


async def test_a_request_that_was_shed_says_why(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        rig = make_rig(telemetry=settings(collector, sample_ratio=0.0))
        await rig.start_service()
        async with rig.post(ask()) as response:
            assert response.status == 503
        tree = await tree_of(rig, collector, response)
        assert tree.names() == ["POST /v1/chat/completions"]
        assert attributes(tree.root)[telemetry.ERROR_TYPE] == "engine_loading"
        assert tree.root.status.code == Status.STATUS_CODE_ERROR, "kept, although nothing is sampled"


async def test_a_request_whose_client_left_ends_where_it_left(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        rig = make_rig(telemetry=settings(collector), simulated=Simulated(step_s=0.01, script="x" * 5000))
        await rig.start()
        async with rig.post(ask(stream=True)) as response:
            await text_of(events(response), at_least=3)
            response.close()
        tree = await tree_of(rig, collector, response)
        assert tree.names() == sorted([*KEPT, "stoker.stream"])
        for name in ("POST /v1/chat/completions", "chat tiny", "stoker.decode"):
            assert attributes(tree.one(name))[telemetry.ERROR_TYPE] == "cancelled"
        assert attributes(tree.root)[telemetry.HTTP_STATUS] == 499


async def test_a_resume_is_seen_between_two_engines(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        crash = Simulated(step_s=0.005, script="x" * 60, faults=(Fault(kind="crash", after_tokens=20, epochs=1),))
        rig = make_rig(telemetry=settings(collector, sample_ratio=0.0), simulated=crash)
        await rig.start()
        async with rig.engines_that_follow_each_other(), rig.post(ask(stream=True)) as response:
            assert await text_of(events(response)) == "x" * 60
        tree = await tree_of(rig, collector, response)
        assert tree.names() == sorted([*KEPT, *KEPT[2:5], "stoker.resume", "stoker.stream"])
        resume = tree.one("stoker.resume")
        first, second = tree.all("stoker.decode")
        assert first.end_time_unix_nano == resume.start_time_unix_nano
        assert resume.end_time_unix_nano == second.start_time_unix_nano
        assert [tree.path(span)[-2] for span in tree.all("stoker.queue")] == ["chat tiny", "stoker.resume"]
        about = attributes(resume)
        assert about[telemetry.EPOCH] == 2
        assert 0 < about[telemetry.EMITTED] <= 20
        assert about[telemetry.GAP] > 0


async def test_each_of_several_answers_has_spans_of_its_own(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        rig = make_rig(telemetry=settings(collector))
        await rig.start()
        async with rig.post(ask(n=2, max_tokens=5)) as response:
            await response.json()
        tree = await tree_of(rig, collector, response)
        assert sorted(attributes(span)[telemetry.CHOICE] for span in tree.all("stoker.decode")) == [0, 1]
        assert attributes(tree.one("chat tiny"))[telemetry.REQUEST_CHOICES] == 2


async def test_what_was_said_is_in_the_trace_for_those_who_ask_for_it(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        rig = make_rig(telemetry=settings(collector, capture_content=True), simulated=Simulated(script="Paris."))
        await rig.start()
        async with rig.post(ask("Capital of France?")) as response:
            await response.json()
        chat = attributes((await tree_of(rig, collector, response)).one("chat tiny"))
        assert json.loads(chat[telemetry.INPUT_MESSAGES])[0]["parts"][0]["content"] == "Capital of France?"
        assert json.loads(chat[telemetry.OUTPUT_MESSAGES])[0]["parts"][0]["content"] == "Paris."


async def test_the_last_traces_are_there_without_any_collector(make_rig: MakeRig) -> None:
    rig = make_rig(server=Server())
    await rig.start()
    asked = {"model": "default", "max_tokens": 4}
    bodies: dict[str, dict[str, Any]] = {
        CHAT: ask(max_tokens=4),
        "/v1/messages": asked | {"messages": [{"role": "user", "content": "Hi"}]},
        "/v1/responses": {"model": "default", "input": "Hi", "max_output_tokens": 16},
        "/v1/completions": asked | {"prompt": "Hi"},
    }
    for path, body in bodies.items():
        async with rig.post(body, path) as response:
            assert response.status == 200, await response.text()
            request_id = response.headers["x-request-id"]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}) as http:
        async with http.get(f"{rig.url}/internal/traces") as response:
            summaries = (await response.json())["traces"]
        assert [each["name"] for each in summaries] == [
            "POST /v1/completions",
            "POST /v1/responses",
            "POST /v1/messages",
            "POST /v1/chat/completions",
        ]
        for name in ("last", request_id, summaries[0]["trace_id"]):
            async with http.get(f"{rig.url}/internal/traces/{name}") as response:
                whole = await response.json()
            assert whole["request_id"] == request_id
            assert "text_completion tiny" in {span["name"] for span in whole["spans"]}
        async with http.get(f"{rig.url}/internal/traces/none") as response:
            assert response.status == 404
    status, _ = await rig.get("/internal/traces/last")
    assert status == 401


async def test_a_collector_that_hangs_keeps_nobody_waiting(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        collector.hold = threading.Event()
        rig = make_rig(telemetry=settings(collector))
        await rig.start()
        for _ in range(20):
            async with rig.post(ask(max_tokens=5)) as response:
                assert response.status == 200
        collector.until_asked(1)
        assert not collector.spans, "all of them were answered while it hung"
        assert await rig.metric("stoker_spans_dropped_total") == 0
        collector.hold.set()


async def test_what_a_failing_collector_does_not_take_is_counted(make_rig: MakeRig) -> None:
    with http_collector() as collector:
        collector.status = 400
        rig = make_rig(telemetry=settings(collector))
        await rig.start()
        async with rig.post(ask(max_tokens=5)) as response:
            assert response.status == 200
        await rig.until_metric("stoker_spans_dropped_total", len(KEPT))
