"""Where the lines go."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

from stoker.watchdog import log_output
from stoker.watchdog.log_file import LogFile
from stoker.watchdog.log_output import LogOutput, as_record, for_people


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Stalled(io.StringIO):
    """A reader that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait()
        return super().write(text)


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_lines_of_children_and_our_own_come_out_as_json_with_their_source() -> None:
    stream = io.StringIO()
    output = LogOutput(stream)
    output.write('{"event": "ours", "source": "watchdog"}\n')
    output.child_line("engine-default", '{"event": "theirs", "source": "default"}')
    output.child_line("engine-default", "Segmentation fault")
    output.close()
    ours, theirs, plain = map(json.loads, stream.getvalue().splitlines())
    assert ours == {"event": "ours", "source": "watchdog"}
    assert theirs == {"event": "theirs", "source": "engine-default"}
    assert (plain["source"], plain["event"], plain["line"]) == ("engine-default", "output", "Segmentation fault")


def test_on_a_terminal_a_record_is_one_line_for_people() -> None:
    stream = Terminal()
    output = LogOutput(stream)
    output.write('{"event": "child_ready", "pid": 7, "level": "info", "timestamp": "2026-01-02T03:04:05Z"}')
    output.close()
    (line,) = stream.getvalue().splitlines()
    assert line.split() == ["03:04:05", "info", "child_ready", "pid=7"]


def test_plain_output_is_shown_as_it_is() -> None:
    assert for_people(as_record("engine", "Segmentation fault")).endswith("Segmentation fault")


def test_what_a_client_sent_cannot_steer_the_terminal() -> None:
    assert for_people({"event": "odd", "model": "a\x1b[2J\nb"}).endswith("model=a\\x1b[2J\\x0ab")


def test_a_structured_traceback_is_shown_as_its_error() -> None:
    record = {"event": "failed", "exception": [{"exc_type": "ValueError", "exc_value": "odd", "frames": []}]}
    assert for_people(record).endswith("failed exception=ValueError: odd")
    assert for_people({"event": "failed", "exception": "odd"}).endswith("exception=odd")


def test_a_reader_that_stalls_costs_lines_but_never_the_watchdog() -> None:
    stream = Stalled()
    output = LogOutput(stream)
    for number in range(log_output.MAX_QUEUED_LINES + 100):
        output.child_line("engine", str(number))
    stream.go.set()
    output.close()
    assert log_output.MAX_QUEUED_LINES <= len(stream.getvalue().splitlines()) <= log_output.MAX_QUEUED_LINES + 1


def test_a_reader_that_is_gone_is_no_error() -> None:
    output = LogOutput(Gone())
    output.child_line("engine", "to nobody")
    output.close()


def test_a_paused_terminal_does_not_keep_lines_from_the_disk(tmp_path: Path) -> None:
    stream, file = Stalled(), LogFile(tmp_path / "logs", max_bytes=10_000, files=1)
    output = LogOutput(stream, file)
    output.child_line("engine", "still here")
    kept = tmp_path / "logs" / "stoker.log"
    deadline = threading.Event()
    while not (kept.exists() and "still here" in kept.read_text()):
        deadline.wait(0.01)
    stream.go.set()
    output.close()
    file.close()


def test_the_file_is_rotated_by_size_and_stays_bounded(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs", max_bytes=1000, files=2)
    output = LogOutput(file)
    for number in range(200):
        output.child_line("engine", f"line {number}")
    output.close()
    file.close()
    kept = sorted((tmp_path / "logs").iterdir())
    assert [each.name for each in kept] == ["stoker.log", "stoker.log.1", "stoker.log.2"]
    assert all(each.stat().st_size <= 1000 for each in kept)
    assert json.loads(kept[0].read_text().splitlines()[-1])["line"] == "line 199"


def test_a_disk_that_takes_nothing_is_no_error(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs", max_bytes=1000, files=2)
    (tmp_path / "logs").rmdir()
    output = LogOutput(file)
    output.child_line("engine", "to nobody")
    output.close()
    file.close()
