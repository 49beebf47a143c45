"""Acts of chaos on real processes, with a tree that only says how it is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import psutil
import pytest

from stoker.config import EngineProcess, Paths, Telemetry
from stoker.soak import acts
from stoker.soak.acts import ActsHere
from stoker.soak.chaos import rule
from stoker.soak.collector import collector_for
from stoker.soak.errors import BadPlan
from stoker.soak.intervals import IncidentSeen
from stoker.watchdog.journal.records import Interval
from stoker.watchdog.ports import ListeningSocket
from stoker.watchdog.samples import Sample
from stoker.watchdog.shed_level import Shed
from stoker.watchdog.soak_news import SoakNews
from stoker.watchdog.status import EngineStatus, ServiceStatus, Status
from stoker.watchdog.supervisor import State
from tests.e2e.running import eventually

WITHIN_S = 20.0
WRITES_FOR_EVER = """
import sys, time
while True:
    try:
        with open(sys.argv[1], "w") as file:
            file.write("x" * 4096)
    except OSError as error:
        open(sys.argv[1] + ".failed", "a").close()
    time.sleep(0.01)
"""


class OneEngine:
    """A tree whose engine is a process of the test's; one that has ended is replaced by the next."""

    wanted = True

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start = start
        self.epoch = 1
        self.process = start()

    async def status(self) -> Status:
        process = psutil.Process(self.process.pid)
        if self.process.poll() is not None or process.status() == psutil.STATUS_STOPPED:
            self.process.kill()
            self.process.wait()
            self.process, self.epoch = self._start(), self.epoch + 1
        engine = EngineStatus("default", "m", State.READY, self.process.pid, self.epoch, 0, None, None, None)
        service = ServiceStatus(1, State.READY, "", 0, None, None)
        now = datetime.now(UTC)
        return Status(True, "1", "", now, (engine,), service, Shed(0, ""))

    async def samples(self) -> list[Sample]:
        return []

    async def spells(self, window_s: float) -> list[Interval] | None:
        return None

    async def incidents(self, window_s: float) -> list[IncidentSeen]:
        return []

    async def tell(self, news: SoakNews) -> None:
        """Nobody listens."""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "written"


@pytest.fixture
async def tree(written: Path) -> AsyncIterator[OneEngine]:
    one = OneEngine(lambda: subprocess.Popen([sys.executable, "-c", WRITES_FOR_EVER, str(written)]))
    yield one
    one.process.kill()
    one.process.wait()


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(acts, "LASTS_S", 0.3)
    yield


@pytest.mark.parametrize("kind", ["kill", "stop"])
async def test_an_engine_that_is_killed_or_hangs_is_over_when_another_is_ready(
    tree: OneEngine, tmp_path: Path, kind: str
) -> None:
    act = await ActsHere(tree, Paths(tmp_path), None).do(kind, WITHIN_S)
    assert act.recovered_at is not None and act.at <= act.recovered_at
    assert tree.epoch == 2


async def test_what_is_not_got_over_in_time_is_said(tree: OneEngine, tmp_path: Path) -> None:
    class Dead(OneEngine):
        async def status(self) -> Status:
            first = await super().status()
            self.asked = getattr(self, "asked", 0) + 1
            return first if self.asked == 1 else Status(False, "1", "", first.started_at, (), first.service, first.shed)

    tree.__class__ = Dead
    act = await ActsHere(tree, Paths(tmp_path), None).do("kill", 0.3)
    assert act.recovered_at is None and "not ready again" in act.note


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="only Linux bounds the files of another process")
async def test_a_full_disk_fails_every_write_and_has_room_again(
    tree: OneEngine, tmp_path: Path, written: Path, briefly: None
) -> None:
    await eventually(written.exists)
    act = await ActsHere(tree, Paths(tmp_path), None).do("disk_full", WITHIN_S)
    assert act.recovered_at is not None
    assert written.with_name("written.failed").exists()
    assert psutil.Process(tree.process.pid).rlimit(psutil.RLIMIT_FSIZE)[0] == psutil.RLIM_INFINITY


async def test_a_collector_is_gone_and_comes_back(tree: OneEngine, tmp_path: Path, briefly: None) -> None:
    listening = ListeningSocket("127.0.0.1", 0, "")
    listening.open()
    url = listening.url
    listening.close()
    collector = collector_for(Telemetry(otlp_endpoint=url, otlp_protocol="http"))
    assert collector is not None
    async with collector.serving(), aiohttp.ClientSession() as http:
        acting = asyncio.create_task(ActsHere(tree, Paths(tmp_path), collector).do("collector_down", WITHIN_S))
        refused = 0
        while not acting.done():
            try:
                async with http.post(f"{url}/v1/traces", data=b"spans") as response:
                    assert response.status == 200
            except aiohttp.ClientError:
                refused += 1
            await asyncio.sleep(0.01)
        async with http.post(f"{url}/v1/traces", data=b"spans") as response:
            assert response.status == 200
    assert refused and collector.received and acting.result().recovered_at is not None


@pytest.mark.parametrize(
    "telemetry", [Telemetry(), Telemetry(otlp_endpoint="http://example.com:4318", otlp_protocol="http")]
)
def test_a_collector_that_is_somebody_else_s_is_left_alone(telemetry: Telemetry) -> None:
    assert collector_for(telemetry) is None


async def test_what_cannot_be_done_here_is_refused_before_the_run(tree: OneEngine, tmp_path: Path) -> None:
    here = ActsHere(tree, Paths(tmp_path), None)
    here.refuse_impossible([rule("kill:1m"), rule("stop:1x")])
    with pytest.raises(BadPlan, match="on_signal = true"):
        here.refuse_impossible([rule("leak:1x")])
    with pytest.raises(BadPlan, match="otlp_endpoint"):
        here.refuse_impossible([rule("collector_down:1x")])


async def test_an_engine_that_can_leak_on_a_signal_is_known_by_its_settings(tree: OneEngine, tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.run.mkdir()
    settings = EngineProcess.model_validate(
        {
            "name": "engine-default",
            "model_name": "m",
            "model_path": None,
            "socket": tmp_path / "s",
            "kv_path": tmp_path / "kv",
            "epoch": 1,
            "engine": {"faults": [{"kind": "leak", "on_signal": True}]},
        }
    )
    paths.child_settings("engine-default").write_text(settings.model_dump_json())
    ActsHere(tree, paths, None).refuse_impossible([rule("leak:1x")])
