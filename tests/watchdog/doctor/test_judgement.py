"""What is well is not complained about, and what a machine or an endpoint says is read for what it is."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.engine.models import ModelInfo
from stoker.engine.protocol import Heartbeat, Memory, MissReason, Phase, PrefixCacheUse, Tier
from stoker.watchdog.doctor.api import PATIENCE_S, ApiReading, Spoken, judge_api, read_api
from stoker.watchdog.doctor.backend import Backend, backend_of, wired_limit
from stoker.watchdog.doctor.engine import judge_engine
from stoker.watchdog.doctor.findings import Finding, Layer, Level, Symptom, layers_for, worst
from stoker.watchdog.doctor.hardware import HardwareReading, judge_hardware, sleep_minutes
from stoker.watchdog.doctor.runtime import RuntimeReading, judge_runtime
from stoker.watchdog.doctor.system import write_s
from stoker.watchdog.endpoint import DONE, EndpointClient, Streamed
from stoker.watchdog.samples import HostReading
from stoker.watchdog.status import EngineStatus
from stoker.watchdog.supervisor import State

GB = 10**9
CHAT = {"choices": [{"message": {"content": "ready"}}], "usage": {"completion_tokens": 1}}


def the(findings: list[Finding], check: str) -> Finding:
    (found,) = [finding for finding in findings if finding.check == check]
    return found


def streamed(first_s: float, total_s: float) -> Finding:
    """What is said of a stream of four events that came so late."""
    stream = Streamed(("{}", "{}", "{}", "{}", DONE), first_s, total_s)
    reading = ApiReading("http://x", Spoken({"data": [{"id": "x"}]}), Spoken(CHAT), Spoken(stream))
    return the(judge_api(reading), "streaming")


def test_a_stream_that_comes_all_at_once_was_held_up_by_something() -> None:
    assert streamed(0.5, 3.0).level is Level.OK
    late = streamed(2.99, 3.0)
    assert late.level is Level.WARNING
    assert "buffering" in (late.remedy or "")


def test_a_first_token_that_takes_long_is_a_matter_of_speed() -> None:
    slow = streamed(PATIENCE_S + 1, PATIENCE_S + 10)
    assert slow.level is Level.WARNING
    assert "--symptom slow" in (slow.remedy or "")


def test_a_program_that_takes_connections_and_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = EndpointClient(f"http://127.0.0.1:{mute.getsockname()[1]}", None, deadline_s=0.05)
        found = the(judge_api(read_api(client)), "port")
    assert found.level is Level.FAILURE


def engine(**changes: Any) -> EngineStatus:
    calm = Heartbeat(1, 10, Phase.READY, steps=100, last_step_age=0.1, running=1, waiting=0, memory=Memory(active=GB))
    beat = msgspec.structs.replace(calm, **changes)
    return EngineStatus("default", "demo", State.READY, 10, 1, 0, None, beat, None)


def test_an_idle_engine_does_not_hang() -> None:
    assert the(judge_engine(engine(last_step_age=6e4, running=0)), "last step").level is Level.OK


def test_a_cache_that_few_have_asked_is_not_judged() -> None:
    use = PrefixCacheUse(5, {Tier.RAM: 0}, 9000, {MissReason.DIVERGED: 5})
    assert the(judge_engine(engine(prefix_cache=use)), "prefix cache").level is Level.OK


def runtime(model_bytes: int, quantization: str | None, **changes: Any) -> RuntimeReading:
    values: dict[str, Any] = {
        "mlx": "1",
        "mlx_lm": "1",
        "on_cpu": True,
        "served_as": "m",
        "pullable": False,
        "model": ModelInfo("m", Path("m"), "llama", 4096, model_bytes, quantization),
        "model_error": None,
        "template": "{{ messages[0].content }}",
        "memory_bytes": 24 * GB,
    }
    return RuntimeReading(**{**values, **changes})


@pytest.mark.parametrize(
    ("reading", "level"),
    [
        (runtime(4 * GB, None), Level.OK),
        (runtime(2 * GB, "4-bit"), Level.WARNING),
        (runtime(2 * GB, "4-bit", on_cpu=False), Level.OK),
        (runtime(4 * GB, "4-bit"), Level.OK),
        (runtime(4 * GB, "4/6-bit"), Level.OK),
        (runtime(10 * GB, "8-bit"), Level.OK),
        (runtime(1 * GB, "mxfp4"), Level.WARNING),
    ],
    ids=["float32", "4-bit", "on a GPU", "too large as float32", "mixed", "8-bit, too large as float32", "no bits"],
)
def test_only_what_would_fit_unquantized_should_not_be_quantized_on_a_cpu(
    reading: RuntimeReading, level: Level
) -> None:
    assert the(judge_runtime(reading), "precision").level is level


@pytest.mark.parametrize(
    ("template", "level"),
    [
        (None, Level.WARNING),
        ("{{ messages[0].content }}", Level.OK),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% endfor %}", Level.FAILURE),
        ("{{ messages[0].content }}{{ strftime_now('%Y') }}", Level.OK),
        ("{{ raise_exception('only images') }}", Level.FAILURE),
    ],
)
def test_a_chat_template_is_rendered_as_transformers_would(template: str | None, level: Level) -> None:
    assert the(judge_runtime(runtime(GB, None, template=template)), "chat template").level is level


def test_a_machine_that_tells_nothing_is_not_complained_about() -> None:
    reading = HardwareReading(HostReading(), None, None, None, on_battery=False)
    assert worst(judge_hardware(reading)) is Level.OK


def test_what_a_mac_says_of_sleep_is_read() -> None:
    said = "System-wide power settings:\nCurrently in use:\n standby  1\n sleep  10 (sleep prevented by x)\n"
    assert sleep_minutes(said) == 10
    assert sleep_minutes(" displaysleep 5\n") is None


def test_what_a_mac_says_of_wired_memory_is_read() -> None:
    assert wired_limit("iogpu.wired_limit_mb: 0\n", 32 * GB) == 24 * GB
    assert wired_limit("iogpu.wired_limit_mb: 1000", 32 * GB) == 1000 * 1024 * 1024


def test_a_mac_computes_on_metal_or_not_at_all() -> None:
    assert backend_of("darwin", "x86_64") is Backend.NONE
    assert backend_of("darwin", "arm64") is Backend.METAL


def test_a_look_at_the_disk_leaves_nothing(tmp_path: Path) -> None:
    assert write_s(tmp_path) > 0
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("symptom", list(Symptom))
def test_a_symptom_leads_to_layers(symptom: Symptom) -> None:
    assert layers_for(symptom)
    assert layers_for(None) == tuple(Layer)
