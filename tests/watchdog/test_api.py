"""The watchdog's HTTP interface, over a tree that only pretends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from stoker.alerts.delivery import TargetStatus, Telling
from stoker.alerts.errors import QuietUnusable
from stoker.engine.errors import EngineUnavailable
from stoker.engine.protocol import Reclaimed
from stoker.watchdog import metrics
from stoker.watchdog.api import WatchdogApi
from stoker.watchdog.death import Cause
from stoker.watchdog.journal.records import IncidentTold, Interval
from stoker.watchdog.journal.ribbon import Piece
from stoker.watchdog.journal.uptime import Uptime
from stoker.watchdog.past import Look, Past
from stoker.watchdog.ports import ListeningSocket
from stoker.watchdog.samples import Sample, decode
from stoker.watchdog.shed_level import Shed
from stoker.watchdog.soak_news import SoakNews
from stoker.watchdog.status import ServiceStatus, Status
from stoker.watchdog.supervisor import State
from tests.watchdog.journal.records import ACTION, INCIDENT

TOKEN = "let-me-in"
STATUS = Status(
    ready=False,
    version="1",
    home="/home",
    started_at=datetime(2026, 1, 2, tzinfo=UTC),
    engines=(),
    service=ServiceStatus(None, State.STARTING, "http://127.0.0.1:8000", 0, None, None),
    shed=Shed(0, "nothing is short"),
)

PAST = Past(
    [IncidentTold(INCIDENT, (ACTION,))],
    Uptime(up_s=90.0, down_s=10.0),
)


class Pretence:
    def __init__(self) -> None:
        self.restarted: list[str] = []
        self.news: list[SoakNews] = []
        self.drained: list[bool] = []
        self.silences: list[float] = []

    async def status(self) -> Status:
        return STATUS

    def restart_engine(self, name: str) -> int:
        if name != "default":
            raise KeyError(name)
        self.restarted.append(name)
        return 7

    def hear_soak(self, news: SoakNews) -> None:
        self.news.append(news)

    def drain_engine(self, name: str, drained: bool) -> None:
        if name != "default":
            raise KeyError(name)
        self.drained.append(drained)

    def silence(self, lasting_s: float, reason: str) -> None:
        if reason == "no disk":
            raise QuietUnusable("cannot write it")
        self.silences.append(lasting_s)

    async def reclaim_engine(self, name: str, level: int) -> Reclaimed:
        if name == "busy":
            raise EngineUnavailable("the engine did not answer")
        if name != "default":
            raise KeyError(name)
        return Reclaimed(epoch=7, level=level, freed_bytes=1000 * level)


class Book:
    """What was seen and written down."""

    def __init__(self) -> None:
        self.samples = (Sample(at=1.0, wall=2.0), Sample(at=2.0, wall=3.0))
        self.asked: list[float] = []
        self.look = Look(self.samples[-1], ())

    def telling(self) -> Telling:
        return Telling(None, (TargetStatus("ops", 1, 2, "HTTP status 500", 9.0, False, False),))

    async def history(self, window_s: float) -> Past:
        self.asked.append(window_s)
        return PAST

    async def spells(self, window_s: float) -> list[Interval]:
        self.asked.append(window_s)
        return [Interval("tree", 1.0, 5.0, "up")]

    async def ribbon(self, window_s: float, pieces: int) -> list[Piece]:
        return [Piece(0.0, window_s, Uptime(up_s=window_s), 1)] * pieces


class Asked:
    """The interface, and who asks it."""

    def __init__(self, tree: Pretence, counted: metrics.WatchdogMetrics, http: aiohttp.ClientSession) -> None:
        self.tree = tree
        self.counted = counted
        self.http = http

    async def reclaim(self, name: str, body: str, token: str = TOKEN) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with self.http.post(f"/engines/{name}/reclaim", headers=headers, data=body) as response:
            return response.status, await response.json()

    async def restart(self, name: str, authorization: str | None) -> tuple[int, Any]:
        headers = {} if authorization is None else {"Authorization": authorization}
        async with self.http.post(f"/engines/{name}/restart", headers=headers) as response:
            return response.status, await response.json()


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    tree, counted = Pretence(), metrics.WatchdogMetrics()
    listening = ListeningSocket("127.0.0.1", 0, "")
    api = WatchdogApi(tree, Book(), counted.registry, TOKEN)
    async with api.serving(listening.open()), aiohttp.ClientSession(listening.url) as http:
        yield Asked(tree, counted, http)
    listening.close()


async def test_the_status_is_what_the_tree_says(asked: Asked) -> None:
    async with asked.http.get("/status") as response:
        assert msgspec.json.decode(await response.read(), type=Status) == STATUS


async def test_memory_is_given_back_for_who_holds_the_token(asked: Asked) -> None:
    done = {"engine": "default", "level": 2, "freed_bytes": 2000}
    assert await asked.reclaim("default", '{"level": 2}') == (200, done)
    for name, body, token, status, code in (
        ("default", "{}", "guess", 401, "unauthorized"),
        ("default", '{"level": 4}', TOKEN, 400, "invalid_body"),
        ("default", '{"depth": 1}', TOKEN, 400, "invalid_body"),
        ("other", "{}", TOKEN, 404, "no_such_engine"),
        ("busy", "{}", TOKEN, 503, "engine_unavailable"),
    ):
        refused, told = await asked.reclaim(name, body, token)
        assert (refused, told["error"]["code"]) == (status, code)


async def test_incidents_are_those_of_the_time_that_was_asked_for(asked: Asked) -> None:
    async with asked.http.get("/incidents?since_s=3600") as response:
        assert msgspec.json.decode(await response.read(), type=Past) == PAST
    async with asked.http.get("/incidents?since_s=long") as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_value")


async def test_samples_are_lines_that_can_be_replayed(asked: Asked) -> None:
    async with asked.http.get("/samples") as response:
        lines = (await response.read()).splitlines(keepends=True)
    assert [sample.wall for sample in decode(lines, "here")] == [2.0, 3.0]


async def test_uptime_comes_in_as_many_pieces_as_are_asked_for(asked: Asked) -> None:
    async with asked.http.get("/uptime?since_s=60&pieces=3") as response:
        found = msgspec.json.decode(await response.read(), type=list[Piece])
    assert [piece.uptime.share for piece in found] == [1.0, 1.0, 1.0]
    for wrong in ("since_s=60&pieces=0", "since_s=60&pieces=1001", "pieces=3"):
        async with asked.http.get(f"/uptime?{wrong}") as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_value")


async def test_the_last_look_is_told_with_its_verdicts(asked: Asked) -> None:
    async with asked.http.get("/look") as response:
        assert msgspec.json.decode(await response.read(), type=Look).sample.wall == 3.0


async def test_an_engine_is_drained_and_resumed_for_who_holds_the_token(asked: Asked) -> None:
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    for action, name, headers, status in (
        ("drain", "default", allowed, 200),
        ("resume", "default", allowed, 200),
        ("drain", "default", {}, 401),
        ("drain", "other", allowed, 404),
        ("stop", "default", allowed, 404),
    ):
        async with asked.http.post(f"/engines/{name}/{action}", headers=headers) as response:
            assert response.status == status, (action, name)
    assert asked.tree.drained == [True, False]


async def test_incidents_are_told_to_nobody_for_a_while_if_the_operator_says_so(asked: Asked) -> None:
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    for body, headers, status in (
        ('{"lasting_s": 60}', allowed, 200),
        ('{"lasting_s": 0}', allowed, 200),
        ('{"lasting_s": -1}', allowed, 400),
        ('{"lasting_s": 60, "reason": "no disk"}', allowed, 503),
        ('{"lasting_s": 60}', {}, 401),
    ):
        async with asked.http.post("/silence", headers=headers, data=body) as response:
            assert response.status == status, body
    assert asked.tree.silences == [60.0, 0.0]


async def test_a_restart_with_the_token_is_accepted(asked: Asked) -> None:
    assert await asked.restart("default", f"Bearer {TOKEN}") == (202, {"engine": "default", "epoch": 7})
    assert asked.tree.restarted == ["default"]


@pytest.mark.parametrize("authorization", [None, TOKEN, "Bearer wrong", "Bearer \N{LATIN SMALL LETTER E WITH ACUTE}"])
async def test_a_restart_without_the_token_is_refused(asked: Asked, authorization: str | None) -> None:
    status, body = await asked.restart("default", authorization)
    assert (status, body["error"]["code"]) == (401, "unauthorized")
    assert asked.tree.restarted == []


async def test_an_unknown_engine_is_named(asked: Asked) -> None:
    status, body = await asked.restart("other", f"Bearer {TOKEN}")
    assert (status, body["error"]["code"]) == (404, "no_such_engine")
    assert "`other`" in body["error"]["message"]


async def test_every_declared_metric_is_exported_under_its_name(asked: Asked) -> None:
    for child in (asked.counted.engine("tiny"), asked.counted.service()):
        child.entered(State.READY)
        child.restarted(Cause.KILLED)
        child.became_ready(0.3)
    async with asked.http.get("/metrics") as response:
        families = {family.name: family for family in text_string_to_metric_families(await response.text())}
    declared = [value for name, value in vars(metrics).items() if name.startswith(("ENGINE_", "SERVICE_", "SHED_"))]
    assert sorted(families) == sorted(name.removesuffix("_total") for name in declared)
    states = {sample.labels["state"]: sample.value for sample in families["stoker_engine_state"].samples}
    assert states == {state: float(state == "ready") for state in State}
    restarts = {sample.labels["reason"]: sample.value for sample in families["stoker_service_restarts"].samples}
    assert restarts == {cause: float(cause == "killed") for cause in Cause}


async def test_metrics_are_open_metrics_for_who_asks_for_them(asked: Asked) -> None:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with asked.http.get("/metrics", headers=headers) as response:
        assert response.content_type == "application/openmetrics-text"
        assert (await response.text()).endswith("# EOF\n")


async def test_who_is_told_is_said_with_what_is_on_its_way(asked: Asked) -> None:
    async with asked.http.get("/alerts") as response:
        assert (await response.json())["targets"][0]["error"] == "HTTP status 500"


async def test_a_runbook_is_where_alerts_say_that_it_is(asked: Asked) -> None:
    async with asked.http.get("/runbooks/StokerEngineDown") as response:
        assert response.status == 200 and (await response.text()).startswith("# StokerEngineDown")
    async with asked.http.get("/runbooks/Nothing") as response:
        assert response.status == 404
