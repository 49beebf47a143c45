"""`stoker watch replay`: recordings through the real detectors and the real policy."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.watchdog.decisions import Observe, Reclaim, Shed, Tighten
from stoker.watchdog.replay import replay
from stoker.watchdog.samples import EngineReading, HostReading, Sample, encode
from stoker.watchdog.verdicts import DetectorName, Level
from tests.e2e.running import stoker


def hot(minute: int) -> Sample:
    """A machine that is hot from its tenth minute to its thirtieth."""
    heat = 2 if 10 <= minute < 30 else 0
    return Sample(
        at=minute * 60.0,
        wall=1.7e9 + minute * 60,
        engine=EngineReading(epoch=1, running=1),
        host=HostReading(thermal_level=heat),
    )


HOT_HOUR = [hot(minute) for minute in range(60)]


def test_a_hot_hour_is_found_acted_upon_and_undone() -> None:
    events = list(replay(HOT_HOUR))
    levels = [event.verdict.level for event in events if event.verdict is not None]
    actions = [event.decision.action for event in events if event.decision is not None]
    assert levels == [Level.FIRING, Level.OK]
    assert actions == [Tighten(1), Shed(1), Shed(0), Tighten(0)]


def test_swap_of_another_program_is_told_as_such() -> None:
    growing = [
        Sample(
            at=10.0 * tick,
            wall=1.7e9,
            engine=EngineReading(epoch=1),
            host=HostReading(swap_used_bytes=tick * 10**8, swap_others_bytes=tick * 95 * 10**6),
        )
        for tick in range(60)
    ]
    decisions = [event.decision for event in replay(growing) if event.decision is not None]
    assert [decision.action for decision in decisions] == [Observe(), Reclaim(1)]
    assert "mostly of other programs" in decisions[0].sentence


def test_the_command_prints_a_time_line(tmp_path: Path) -> None:
    file = tmp_path / "hot.jsonl"
    file.write_bytes(b"".join(encode(sample) + b"\n" for sample in HOT_HOUR))
    told = stoker(tmp_path, "watch", "replay", str(file))
    assert told.returncode == 0
    assert told.stdout.splitlines()[0] == "2023-11-14 22:25:20Z  thermal: firing, the system's thermal level is 2"
    lines = [json.loads(line) for line in stoker(tmp_path, "watch", "replay", str(file), "--json").stdout.splitlines()]
    assert lines[0]["verdict"]["detector"] == DetectorName.THERMAL
    assert lines[1]["decision"]["action"] == {"type": "Tighten", "level": 1}


def test_what_is_no_recording_is_misuse(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing\n")
    told = stoker(tmp_path, "watch", "replay", str(file))
    assert told.returncode == 2
    assert "line 1 is no sample" in told.stderr
