"""What is handed to a helper holds what helps, and nothing that is secret."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from stoker.config import Config, Paths
from stoker.watchdog.doctor.bundle import LOG_TAIL_BYTES, without_secrets, write_bundle
from stoker.watchdog.doctor.findings import Finding, Layer, Level
from stoker.watchdog.doctor.server import Holder, ServerReading
from stoker.watchdog.errors import HomeUnusable

FINDING = Finding(Layer.API, "port", Level.FAILURE, "nothing answers", "start it")


def reading(home: Path) -> ServerReading:
    return ServerReading(home, Config(), None, Holder.NOBODY, None, None, "no tree runs", ())


def test_a_bundle_holds_findings_configuration_and_the_end_of_the_logs(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.logs.mkdir()
    line = json.dumps({"event": "request", "authorization": "Bearer sk-verysecret123"}) + "\n"
    (paths.logs / "stoker.log").write_text(line * (2 * LOG_TAIL_BYTES // len(line)))
    file = tmp_path / "bundle.tar.gz"
    contents = write_bundle(file, [FINDING], reading(tmp_path), paths)
    assert contents == ["configuration.json", "findings.json", "logs/stoker.log", "system.json"]
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        log = archive.extractfile("stoker-bundle/logs/stoker.log")
        found = archive.extractfile("stoker-bundle/findings.json")
        assert log is not None
        assert found is not None
        tail = log.read()
        assert b"sk-verysecret123" not in tail
        assert 0 < len(tail) <= LOG_TAIL_BYTES
        assert json.load(found)[0]["remedy"] == "start it"


def test_secrets_of_the_configuration_are_left_out_and_counts_are_not() -> None:
    settings = {
        "max_tokens": 7,
        "webhook": {"secret": "whsec_x", "url": "https://user:pass@host/x"},
        "telemetry": {"headers": {"authorization": "x"}, "endpoint": "http://host"},
        "api_keys": None,
    }
    assert without_secrets(settings) == {
        "max_tokens": 7,
        "webhook": {"secret": "***", "url": "https://user:***@host/***"},
        "telemetry": {"headers": "***", "endpoint": "http://host"},
        "api_keys": None,
    }


def test_a_bundle_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusable, match="cannot write"):
        write_bundle(tmp_path / "no" / "folder" / "x.tar.gz", [FINDING], reading(tmp_path), Paths(tmp_path))
