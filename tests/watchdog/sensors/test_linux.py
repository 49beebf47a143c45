"""Linux readings, from trees that machines have shown and from trees that none should."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import Sensors
from stoker.watchdog.samples import HostReading
from stoker.watchdog.sensors.linux import PAGE_BYTES, LinuxHost, LinuxProcesses
from stoker.watchdog.sensors.sensors import ProcessReading, host_sensor, process_sensor
from stoker.watchdog.sensors.text import content, number, numbers
from tests.watchdog.sensors.trees import Tree

PID = 4711
WORST = 2**63


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def host(tree: Tree) -> HostReading:
    return LinuxHost(Path("/nowhere"), tree.proc, tree.sys).read()


def test_memory_pressure_and_swap_are_read(tree: Tree) -> None:
    tree.machine()
    assert host(tree) == HostReading(
        memory_bytes=32768000 * 1024,
        available_bytes=12288000 * 1024,
        pressure_some_share=0.125,
        pressure_full_share=0.0375,
        swap_bytes=8388608 * 1024,
        swap_used_bytes=2097152 * 1024,
        swap_in_bytes_total=1200 * PAGE_BYTES,
        swap_out_bytes_total=3400 * PAGE_BYTES,
    )


def test_a_machine_that_shows_nothing_says_nothing(tree: Tree) -> None:
    assert host(tree) == HostReading()


def test_the_disk_is_that_of_the_home(tmp_path: Path) -> None:
    found = LinuxHost(tmp_path, tmp_path, tmp_path).read()
    assert found.disk_bytes and found.disk_free_bytes is not None and found.disk_free_bytes <= found.disk_bytes


def test_throttles_count_each_core_and_the_package_once(tree: Tree) -> None:
    tree.cpu(0, throttled=3, package_throttled=10, khz=2_000_000)
    tree.cpu(1, throttled=4, package_throttled=10, khz=1_000_000)
    assert host(tree).throttles_total == 17


def test_the_clock_is_that_of_the_fastest_core(tree: Tree) -> None:
    tree.cpu(0, throttled=0, package_throttled=0, khz=1_000_000)
    tree.cpu(1, throttled=0, package_throttled=0, khz=3_000_000)
    assert host(tree).clock_ratio == 0.75


@pytest.mark.parametrize(("celsius", "level"), [(60.0, 0), (85.0, 1), (96.0, 2), (106.0, 3)])
def test_heat_is_the_severest_trip_point_that_was_reached(tree: Tree, celsius: float, level: int) -> None:
    tree.zone(0, celsius, active=50.0, passive=80.0, hot=95.0, critical=105.0)
    tree.zone(1, 40.0, critical=100.0)
    assert host(tree).thermal_level == level


def test_a_zone_without_trip_points_says_nothing_of_heat(tree: Tree) -> None:
    tree.zone(0, 90.0)
    assert host(tree).thermal_level is None


def test_a_zone_that_reports_the_heat_of_the_sun_is_not_believed(tree: Tree) -> None:
    tree.zone(0, 5500.0, passive=80.0)
    assert host(tree).thermal_level is None


def test_a_process_costs_what_it_shares_and_what_it_has_in_swap(tree: Tree) -> None:
    tree.process(PID, fds=7)
    assert LinuxProcesses(tree.proc).read(PID) == ProcessReading(
        footprint_bytes=(4096000 + 512000) * 1024, swapped_bytes=512000 * 1024, fds=7, fds_limit=1024
    )


def test_of_a_process_that_has_ended_nothing_is_known(tree: Tree) -> None:
    assert LinuxProcesses(tree.proc).read(PID) == ProcessReading()


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    machine, mine = host_sensor(tmp_path, Sensors()).read(), process_sensor(Sensors()).read(os.getpid())
    assert machine.memory_bytes and machine.available_bytes and machine.available_bytes < machine.memory_bytes
    assert mine.footprint_bytes and mine.fds and mine.fds_limit and mine.fds <= mine.fds_limit


NONSENSE = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"", b"-1", b"99999999999999999999999999", "٣".encode(), b"nan", b"1e9", b"0", b"\x00", b"12 34"]),
)


@given(st.lists(NONSENSE, min_size=12, max_size=12), st.integers(0, 400))
def test_no_content_of_any_file_raises_or_makes_an_impossible_number(files: list[bytes], cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        tree.machine()
        tree.process(PID, fds=0)
        tree.cpu(0, throttled=1, package_throttled=1, khz=1)
        tree.zone(0, 50.0, passive=80.0)
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        for path, junk in zip(paths, files, strict=False):
            whole = path.read_bytes()
            tree.put(path, whole[:cut] + junk)
        readings = [host(tree), LinuxProcesses(tree.proc).read(PID)]
    for reading in readings:
        for name, value in msgspec.structs.asdict(reading).items():
            assert value is None or 0 <= value <= WORST * PAGE_BYTES, name


@given(st.text())
def test_a_number_is_digits_and_nothing_else(text: str) -> None:
    found = number(text)
    assert found is None or str(found) == (text.strip().lstrip("0") or "0")


@given(st.text())
def test_lines_are_taken_as_far_as_they_are_numbers(text: str) -> None:
    assert all(value >= 0 for value in numbers(text).values())


def test_a_folder_where_a_file_should_be_is_empty(tmp_path: Path) -> None:
    assert content(tmp_path) == ""
