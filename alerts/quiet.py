"""When nobody is told: until a moment that a person named, and in periods that come again.

The person's word is a file, so that it outlives the tree and can be given before there is one. It is written by command
or from the status page, and the courier reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import structlog
from apscheduler.triggers.cron import CronTrigger

from ..config import QuietPeriod
from .errors import QuietUnusable

log = structlog.get_logger(__name__)


class Silence(msgspec.Struct, frozen=True):
    """What a person asked for. `until` is in seconds since 1970."""

    until: float
    reason: str = ""


class Quiet:
    """The file and the periods; ask `until` at any moment."""

    def __init__(self, file: Path, periods: Sequence[QuietPeriod]) -> None:
        self._file = file
        self._periods = [(CronTrigger.from_crontab(each.cron), timedelta(seconds=each.duration_s)) for each in periods]

    def until(self, now: float) -> float | None:
        """When it ends, if `now` is a time to be quiet."""
        silence = read(self._file)
        ends = [] if silence is None else [silence.until]
        ends += [end for trigger, lasts in self._periods if (end := _end_of(trigger, lasts, now)) is not None]
        return max((end for end in ends if end > now), default=None)


def read(file: Path) -> Silence | None:
    """What was asked for last; it may be over. A file that is not understood silences nobody."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Silence)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("quiet_file_unreadable", path=str(file), error=str(error))
        return None


def write(file: Path, silence: Silence) -> None:
    """Replace what was asked for. Raises `QuietUnusable`."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(silence))
        draft.replace(file)
    except OSError as error:
        raise QuietUnusable(f"cannot write {file}: {error.strerror}; make room or mend its permissions") from error


def _end_of(trigger: CronTrigger, lasts: timedelta, now: float) -> float | None:
    """The end of the last period that has begun; pure. A begin may lie within the one before."""
    moment = datetime.fromtimestamp(now, UTC)
    begin = trigger.get_next_fire_time(None, moment - lasts)
    end = None
    while begin is not None and begin <= moment:
        end = begin + lasts
        begin = trigger.get_next_fire_time(begin, begin + timedelta(seconds=1))
    return None if end is None or end <= moment else end.timestamp()
