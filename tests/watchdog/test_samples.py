"""Recordings: what is written is what is read, and what cannot be read is refused by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.watchdog.errors import BadRecording
from stoker.watchdog.samples import Check, EngineReading, HostReading, Sample, encode, read

SAMPLES = [
    Sample(at=1.0, wall=1.7e9),
    Sample(at=2.0, wall=1.7e9 + 1, engine=EngineReading(epoch=3, active_bytes=5), host=HostReading(clock_ratio=0.5)),
    Sample(at=3.0, wall=1.7e9 + 2, canary=Check(number=1, answered=True, duration_s=0.2), engine_deaths_total=2),
]


def test_what_is_recorded_is_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_bytes(b"".join(encode(sample) + b"\n" for sample in SAMPLES))
    assert list(read(file)) == SAMPLES


def test_what_is_not_known_takes_no_room() -> None:
    assert encode(SAMPLES[0]) == b'{"at":1.0,"wall":1700000000.0}'


def test_a_line_cut_short_at_the_end_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_bytes(encode(SAMPLES[0]) + b"\n" + encode(SAMPLES[1])[:-3])
    assert list(read(file)) == SAMPLES[:1]


@pytest.mark.parametrize("line", [b"{}\n", b"nonsense\n", b'{"at": 1.0, "wall": 2.0, "engine": 3}\n'])
def test_a_line_that_is_no_sample_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_bytes(encode(SAMPLES[0]) + b"\n" + line)
    with pytest.raises(BadRecording, match="line 2 is no sample"):
        list(read(file))


def test_a_recording_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(BadRecording, match="cannot read"):
        list(read(tmp_path / "none.jsonl"))
