"""When nobody is told: by a person's word in a file, and by periods that come again."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from stoker.alerts.errors import QuietUnusable
from stoker.alerts.quiet import Quiet, Silence, read, write
from stoker.config import QuietPeriod

HOUR_S = 3600.0


def moment(day: int, hour: int, minute: int = 0) -> float:
    """Of January 2026, in this machine's time; the 4th is a Sunday."""
    return datetime(2026, 1, day, hour, minute).astimezone().timestamp()


def test_a_person_silences_until_a_moment(tmp_path: Path) -> None:
    quiet = Quiet(tmp_path / "home" / "quiet.json", ())
    assert quiet.until(100.0) is None
    write(tmp_path / "home" / "quiet.json", Silence(200.0, "new disk"))
    assert (quiet.until(199.0), quiet.until(200.0)) == (200.0, None)


def test_a_period_is_quiet_from_its_begin_to_its_end(tmp_path: Path) -> None:
    quiet = Quiet(tmp_path / "quiet.json", [QuietPeriod(cron="0 3 * * sun", duration_s=2 * HOUR_S)])
    assert quiet.until(moment(4, 2, 59)) is None
    assert quiet.until(moment(4, 3)) == moment(4, 5)
    assert quiet.until(moment(4, 4, 59)) == moment(4, 5)
    assert quiet.until(moment(4, 5)) is None
    assert quiet.until(moment(5, 4)) is None


def test_periods_that_overlap_are_one(tmp_path: Path) -> None:
    quiet = Quiet(tmp_path / "quiet.json", [QuietPeriod(cron="0 * * * *", duration_s=1.5 * HOUR_S)])
    assert quiet.until(moment(4, 4, 10)) == moment(4, 5, 30)


def test_the_later_of_two_ends_counts(tmp_path: Path) -> None:
    write(tmp_path / "quiet.json", Silence(moment(4, 9)))
    quiet = Quiet(tmp_path / "quiet.json", [QuietPeriod(cron="0 3 * * *", duration_s=HOUR_S)])
    assert quiet.until(moment(4, 3, 30)) == moment(4, 9)


def test_a_file_that_is_not_understood_silences_nobody(tmp_path: Path) -> None:
    (tmp_path / "quiet.json").write_text("hush")
    assert read(tmp_path / "quiet.json") is None


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuietUnusable, match="mend its permissions"):
        write(tmp_path / "file" / "quiet.json", Silence(1.0))


def test_a_crontab_expression_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no crontab expression"):
        QuietPeriod(cron="at night", duration_s=60.0)
