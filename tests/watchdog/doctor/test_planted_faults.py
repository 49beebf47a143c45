"""Each fault that was planted is named at its layer, with a remedy; and what is well is not complained about."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.config import Config, Paths
from stoker.engine.models import ModelInfo
from stoker.engine.protocol import Heartbeat, Memory, MissReason, Phase, PrefixCacheUse, Tier
from stoker.watchdog.doctor.api import judge_api, read_api
from stoker.watchdog.doctor.backend import Backend, BackendReading, backend_here, judge_backend, wired_limit
from stoker.watchdog.doctor.engine import judge_engine
from stoker.watchdog.doctor.findings import Finding, Layer, Level, Symptom, layers_for, worst
from stoker.watchdog.doctor.hardware import HardwareReading, judge_hardware, read_hardware, sleep_minutes
from stoker.watchdog.doctor.runtime import RuntimeReading, judge_runtime, read_runtime
from stoker.watchdog.doctor.server import judge_server, read_server
from stoker.watchdog.endpoint import EndpointClient
from stoker.watchdog.samples import HostReading
from stoker.watchdog.status import EngineStatus, LastRestart
from stoker.watchdog.supervisor import State
from tests.tiny_models import make_tiny_llama

GB = 10**9


def the(findings: list[Finding], check: str) -> Finding:
    """The one finding of that name; whatever is not well says what to do."""
    (found,) = [finding for finding in findings if finding.check == check]
    assert found.level in (Level.OK, Level.SKIPPED) or found.remedy
    return found


# --- the API


@contextlib.contextmanager
def server_that(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A foreign server on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, *_: Any) -> None:
            """Not on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def say(handler: BaseHTTPRequestHandler, body: str, code: int = 200) -> None:
    handler.send_response(code)
    handler.end_headers()
    handler.wfile.write(body.encode())


CHAT = {"choices": [{"message": {"content": "ready"}}], "usage": {"completion_tokens": 1}}
EVENTS = [f"data: {json.dumps({'choices': [{'delta': {'content': 'x'}}]})}\n\n" for _ in range(4)]


def plain_server(handler: BaseHTTPRequestHandler, stream: str = "".join([*EVENTS, "data: [DONE]\n\n"])) -> None:
    """Answers everything, but knows no tools."""
    if handler.path == "/v1/models":
        say(handler, json.dumps({"data": [{"id": "foreign"}]}))
    else:
        # Whole answers and streams are told apart by who asks: the doctor asks for the whole one first.
        handler.server.asked = getattr(handler.server, "asked", 0) + 1  # type: ignore[attr-defined]
        say(handler, stream if handler.server.asked == 2 else json.dumps(CHAT))  # type: ignore[attr-defined]


def examined(url: str) -> list[Finding]:
    return judge_api(read_api(EndpointClient(url, None, deadline_s=10)))


def test_a_port_where_nothing_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        found = the(examined(f"http://127.0.0.1:{closed.getsockname()[1]}"), "port")
    assert (found.layer, found.level) == (Layer.API, Level.FAILURE)


def test_the_port_of_another_program() -> None:
    with server_that(lambda handler: say(handler, "<html>hello</html>")) as url:
        assert "another program" in the(examined(url), "port").measured


def test_a_key_that_is_missing() -> None:
    with server_that(lambda handler: say(handler, "{}", code=401)) as url:
        assert "--key" in (the(examined(url), "key").remedy or "")


def test_a_foreign_server_that_is_well_but_knows_no_tools() -> None:
    with server_that(plain_server) as url:
        findings = examined(url)
    assert the(findings, "format").level is Level.OK
    assert the(findings, "streaming").level is Level.OK
    assert the(findings, "tool calls").level is Level.WARNING


def test_a_stream_that_something_cuts() -> None:
    with server_that(lambda handler: plain_server(handler, stream="".join(EVENTS))) as url:
        assert the(examined(url), "streaming").level is Level.FAILURE


def test_an_endpoint_that_fails_is_asked_for_no_more() -> None:
    def fail(handler: BaseHTTPRequestHandler) -> None:
        models = handler.path == "/v1/models"
        say(
            handler, json.dumps({"data": [{"id": "x"}]}) if models else '{"error": "no engine"}', 200 if models else 503
        )

    with server_that(fail) as url:
        findings = examined(url)
    assert "no engine" in the(findings, "format").measured
    assert len(findings) == 2


# --- the server


def test_a_key_of_the_configuration_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "stoker.toml").write_text("[server]\nprot = 8000\n")
    found = the(judge_server(read_server(Paths(tmp_path), None)), "configuration")
    assert found.level is Level.FAILURE
    assert "port" in found.measured


def test_no_tree_and_a_port_that_somebody_else_has(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        (tmp_path / "stoker.toml").write_text(f"[server]\nport = {port}\n[watchdog]\nport = 0\n")
        findings = judge_server(read_server(Paths(tmp_path), None))
    assert "stoker serve" in (the(findings, "tree").remedy or "")
    assert str(port) in the(findings, "port").measured


@pytest.mark.parametrize("alive", [True, False])
def test_a_lock_that_outlives_its_tree(alive: bool, tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.run.mkdir()
    (tmp_path / "stoker.toml").write_text("[server]\nport = 0\n[watchdog]\nport = 0\n")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with paths.lock.open("w") as lock:
        lock.write(str(os.getpid() if alive else gone.pid))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = the(judge_server(read_server(paths, None)), "tree")
    assert found.level is Level.FAILURE
    assert ("kill" if alive else "lsof") in (found.remedy or "")


# --- the engine


def beat(**changes: Any) -> Heartbeat:
    calm = Heartbeat(1, 10, Phase.READY, steps=100, last_step_age=0.1, running=1, waiting=0, memory=Memory(active=GB))
    return msgspec.structs.replace(calm, **changes)


def engine(state: State = State.READY, heartbeat: Heartbeat | None = None, **changes: Any) -> EngineStatus:
    plain = EngineStatus("default", "demo", state, 10, 1, 0, None, heartbeat or beat(), None)
    return msgspec.structs.replace(plain, **changes)


def died(reason: str, ago: timedelta = timedelta(minutes=3)) -> LastRestart:
    return LastRestart(reason, datetime.now(UTC) - ago, -9, 1.5, ("the last words",))


def test_an_engine_that_is_well() -> None:
    assert worst(judge_engine(engine())) is Level.OK


def test_an_engine_that_hangs() -> None:
    assert the(judge_engine(engine(heartbeat=beat(last_step_age=60.0))), "last step").level is Level.FAILURE


def test_an_idle_engine_does_not_hang() -> None:
    assert the(judge_engine(engine(heartbeat=beat(last_step_age=6e4, running=0))), "last step").level is Level.OK


def test_an_engine_that_stays_away_says_its_last_words() -> None:
    away = engine(
        State.CIRCUIT_OPEN, failure="it died 6 times in 120 s", restarts=6, last_restart=died("exited with 1")
    )
    found = the(judge_engine(away), "state")
    assert found.level is Level.FAILURE
    assert "the last words" in found.measured


@pytest.mark.parametrize(
    ("reason", "hint"),
    [("killed by SIGKILL", "journalctl"), ("no step for 10.1 s", "hung"), ("exited with 1", "status")],
)
def test_a_death_leads_to_where_its_cause_can_be_seen(reason: str, hint: str) -> None:
    found = the(judge_engine(engine(restarts=1, last_restart=died(reason))), "restarts")
    assert found.level is Level.WARNING
    assert hint in (found.remedy or "")


def test_a_death_of_last_week_is_no_trouble() -> None:
    old = engine(restarts=1, last_restart=died("killed by SIGKILL", timedelta(days=7)))
    assert the(judge_engine(old), "restarts").level is Level.OK


def test_memory_that_nears_its_limit() -> None:
    full = beat(memory=Memory(active=90, cache=5, weights=50, kv=20, limit=100))
    assert the(judge_engine(engine(heartbeat=full)), "memory").level is Level.WARNING


def test_prompts_that_miss_the_cache_because_they_begin_with_a_nonce() -> None:
    use = PrefixCacheUse(100, {Tier.RAM: 100}, 9000, {MissReason.DIVERGED: 90, MissReason.COLD: 10})
    found = the(judge_engine(engine(heartbeat=beat(prefix_cache=use))), "prefix cache")
    assert found.level is Level.WARNING
    assert "canonical" in (found.remedy or "")


# --- the runtime


def runtime(**changes: Any) -> RuntimeReading:
    info = ModelInfo("m", Path("m"), "llama", 4096, 4 * GB, None)
    values: dict[str, Any] = {
        "mlx": "1",
        "mlx_lm": "1",
        "metal": False,
        "model": info,
        "model_error": None,
        "to_fetch": None,
        "template": "{% for m in messages %}{{ m.content }}{% endfor %}",
        "memory_bytes": 24 * GB,
    }
    return RuntimeReading(**{**values, **changes})


def test_a_runtime_that_is_well() -> None:
    assert worst(judge_runtime(runtime())) is Level.OK


def test_a_model_that_is_too_large() -> None:
    large = ModelInfo("m", Path("m"), "llama", 4096, 23 * GB, None)
    assert "--bits 4" in (the(judge_runtime(runtime(model=large)), "size").remedy or "")


def test_a_quantized_model_on_a_cpu_is_slow() -> None:
    small = ModelInfo("m", Path("m"), "llama", 4096, GB, "4-bit")
    assert the(judge_runtime(runtime(model=small)), "precision").level is Level.WARNING
    assert the(judge_runtime(runtime(model=small, metal=True)), "precision").level is Level.OK


def test_weights_that_are_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    make_tiny_llama(folder)
    weights = next(folder.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])
    config = Config.model_validate({"engine": {"model": str(folder)}})
    found = the(judge_runtime(read_runtime(config, Paths(tmp_path), metal=False)), "model")
    assert found.level is Level.FAILURE
    assert "cut off" in found.measured


@pytest.mark.parametrize(
    ("template", "level"),
    [
        (None, Level.WARNING),
        ("{{ messages[0].content }}", Level.OK),
        ("{{ messages[0].text }}", Level.FAILURE),
        ("{% for m in messages %}", Level.FAILURE),
        ("{{ raise_exception('only images') }}", Level.FAILURE),
    ],
)
def test_a_chat_template_that_is_another_models(template: str | None, level: Level) -> None:
    assert the(judge_runtime(runtime(template=template)), "chat template").level is level


def test_a_model_that_is_still_to_be_fetched(tmp_path: Path) -> None:
    reading = read_runtime(Config(), Paths(tmp_path), metal=False)
    assert "models pull demo" in (the(judge_runtime(reading), "model").remedy or "")


# --- the backend


def backend(**changes: Any) -> BackendReading:
    values: dict[str, Any] = {
        "openblas_missing": None,
        "engine_has_openblas": True,
        "wired_limit_bytes": None,
        "weights_bytes": None,
    }
    return BackendReading(**{"backend": Backend.CPU, "system": "Linux", **values, **changes})


def test_openblas_that_is_missing() -> None:
    found = the(judge_backend(backend(openblas_missing="It is slow. Install it.")), "OpenBLAS")
    assert (found.level, found.measured, found.remedy) == (Level.FAILURE, "It is slow", "Install it.")


def test_openblas_that_came_after_the_engine() -> None:
    found = the(judge_backend(backend(engine_has_openblas=False)), "OpenBLAS")
    assert "engine restart" in (found.remedy or "")


def test_a_mac_whose_gpu_may_not_keep_the_weights() -> None:
    limit = wired_limit("iogpu.wired_limit_mb: 0\n", 32 * GB)
    assert limit == 24 * GB
    assert wired_limit("iogpu.wired_limit_mb: 1000", 32 * GB) == 1000 * 1024 * 1024
    mac = backend(backend=Backend.METAL, wired_limit_bytes=limit, weights_bytes=28 * GB)
    assert "iogpu.wired_limit_mb=" in (the(judge_backend(mac), "wired limit").remedy or "")


def test_a_mac_with_an_intel_processor() -> None:
    assert backend_here("darwin", "x86_64") is Backend.NONE
    assert backend_here("darwin", "arm64") is Backend.METAL
    assert the(judge_backend(backend(backend=Backend.NONE)), "backend").level is Level.FAILURE


# --- the hardware


def hardware(host: HostReading | None = None, **changes: Any) -> HardwareReading:
    values: dict[str, Any] = {"disk_write_s": 0.01, "disk_error": None, "sleeps_after_min": None, "on_battery": False}
    return HardwareReading(host or HostReading(disk_free_bytes=100 * GB), **{**values, **changes})


def test_a_machine_that_is_well() -> None:
    host = HostReading(
        memory_bytes=24 * GB, available_bytes=20 * GB, swap_bytes=0, swap_used_bytes=0, disk_free_bytes=100 * GB
    )
    assert worst(judge_hardware(hardware(host))) is Level.OK


def test_a_swap_that_is_full() -> None:
    assert the(judge_hardware(hardware(HostReading(swap_bytes=10, swap_used_bytes=9))), "swap").level is Level.FAILURE


def test_a_machine_that_is_too_hot() -> None:
    assert the(judge_hardware(hardware(HostReading(thermal_level=2))), "heat").level is Level.FAILURE


def test_a_clock_that_is_held_down() -> None:
    assert the(judge_hardware(hardware(HostReading(clock_ratio=0.4))), "clock").level is Level.WARNING


def test_memory_that_other_programs_take() -> None:
    host = HostReading(memory_bytes=24 * GB, available_bytes=GB)
    assert the(judge_hardware(hardware(host)), "memory").level is Level.WARNING


def test_a_disk_that_sleeps_or_is_full_or_cannot_be_written() -> None:
    assert "disksleep" in (the(judge_hardware(hardware(disk_write_s=7.0)), "disk").remedy or "")
    assert the(judge_hardware(hardware(HostReading(disk_free_bytes=10**8))), "disk").level is Level.FAILURE
    assert the(judge_hardware(hardware(disk_error="cannot write", disk_write_s=None)), "disk").level is Level.FAILURE


def test_a_mac_that_goes_to_sleep() -> None:
    said = "System-wide power settings:\nCurrently in use:\n standby  1\n sleep  10 (sleep prevented by x)\n"
    assert sleep_minutes(said) == 10
    assert sleep_minutes(" displaysleep 5\n") is None
    assert "pmset" in (the(judge_hardware(hardware(sleeps_after_min=10)), "sleep").remedy or "")


def test_a_look_at_the_disk_leaves_nothing(tmp_path: Path) -> None:
    reading = read_hardware(tmp_path, HostReading(disk_free_bytes=100 * GB))
    assert reading.disk_write_s is not None
    assert not any(tmp_path.iterdir())


# --- where to look


@pytest.mark.parametrize("symptom", list(Symptom))
def test_a_symptom_leads_to_layers(symptom: Symptom) -> None:
    assert layers_for(symptom)
    assert layers_for(None) == tuple(Layer)
