"""Where a request's time went: told in a header, or at a stream's end."""

from __future__ import annotations

import re
from collections.abc import Callable

from stoker.config import Simulated
from stoker.service.timing import Times
from tests.service.rig import Rig, ask

ALL = re.compile(r"queue;dur=[0-9.]+, prefill;dur=[0-9.]+, decode;dur=[0-9.]+")


def test_only_what_is_over_is_told() -> None:
    assert Times().describe(1.0) == ""
    assert Times(1.5).describe(1.0) == "queue;dur=500.0"
    assert Times(1.5, resumes=2).describe(1.0) == 'queue;dur=500.0, resume;desc="2"'
    assert Times(1.5, 2.0, 4.0).describe(1.0) == "queue;dur=500.0, prefill;dur=500.0, decode;dur=2000.0"


async def test_a_whole_answer_has_a_header_and_a_stream_a_comment(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(script="one two three"))
    await rig.start()
    for body in (ask(), ask(stop="two")):
        async with rig.post(body) as whole:
            assert ALL.fullmatch(whole.headers["server-timing"])
        async with rig.post(body | {"stream": True}) as stream:
            assert stream.headers["server-timing"].startswith("queue;dur=")
            lines = (await stream.text()).splitlines()
        (told,) = [line for line in lines if line.startswith(": server-timing ")]
        assert ALL.search(told)


async def test_a_request_keeps_the_id_that_it_came_with(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask(max_tokens=1), headers={"x-request-id": "job-7.a"}) as named:
        assert named.headers["x-request-id"] == "job-7.a"
    async with rig.post(ask(max_tokens=1), headers={"x-request-id": "no name: {}"}) as other:
        assert other.headers["x-request-id"].startswith("req_")
