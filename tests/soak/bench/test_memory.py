"""Memory by the system's word for a process and its children, or by what a target's metrics say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stoker.soak.bench.memory import of_processes, parsed
from stoker.watchdog.sensors.sensors import ProcessReading
from tests.e2e.running import gone

STOKER = """
# TYPE stoker_engine_memory_bytes gauge
stoker_engine_memory_bytes{kind="footprint"} 3e+09
stoker_engine_memory_bytes{kind="kv"} 1e+09
process_resident_memory_bytes 5e+07
"""
WATCHDOG = """
# TYPE stoker_engine_restarts_total counter
stoker_engine_restarts_total{model="demo",reason="killed"} 2
stoker_engine_restarts_total{model="demo",reason="stalled"} 1
"""


class Hundred:
    """Every process takes so much."""

    def read(self, pid: int) -> ProcessReading:
        return ProcessReading(footprint_bytes=100)


def test_children_are_part_of_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert (of_processes(os.getpid(), Hundred()) or 0) >= 200
        child.communicate(b"\n")


def test_of_a_process_that_has_ended_nothing_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert gone(child.pid)
    assert of_processes(child.pid, Hundred()) is None


def test_stokers_own_word_about_its_engine_goes_before_the_services_process() -> None:
    assert parsed(STOKER).memory_bytes == 3_000_000_000


def test_restarts_are_counted_whatever_their_reason() -> None:
    assert parsed(WATCHDOG).engine_restarts == 3


def test_what_is_no_metrics_page_is_refused_by_the_parser() -> None:
    with pytest.raises(ValueError, match="invalid"):
        parsed("<html>not found</html>")
