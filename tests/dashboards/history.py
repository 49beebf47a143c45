"""72 hours of a tree's life, minute by minute: what Prometheus would have scraped, and the numbers to compare with.

Back-filled samples cannot end a series as a failed scrape does, so what is away stays as it last was for five minutes.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stoker.watchdog.supervisor import State

HOURS = 72
STEP_S = 60
MINUTES = HOURS * 3600 // STEP_S
LOOKBACK = 5
"""Minutes for which Prometheus takes a sample for the present value."""

DOWN = {300: (4, "killed"), 1500: (2, "stalled"), 1600: (1, "killed"), 3900: (12, "exited")}
"""Deaths of the engine: at which minute, for how many, and why."""
SERVICE_DOWN = {2500: 3}
AWAY = range(2000, 2030)
"""Minutes without any of Stoker."""
FAILING = {range(1500, 1504): 0.25, range(3900, 3915): 0.4, range(4200, 4260): 0.05}
"""Minutes in which this share of the requests failed."""
INCIDENTS = {298: "pressure", 1499: "stall", 3899: "crashes", 4100: "crashes"}


@dataclass
class Life:
    """By minute: what was true. Counts are of the minute that ends there."""

    requests: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    engine_up: list[bool] = field(default_factory=list)
    service_up: list[bool] = field(default_factory=list)
    there: list[bool] = field(default_factory=list)

    def uptime(self) -> float:
        """Share of the minutes in which a canary would have been answered, as far as Prometheus can know."""
        up = 0
        for minute in range(MINUTES):
            seen = next((each for each in range(minute, minute - LOOKBACK, -1) if self.there[each]), None)
            up += seen is not None and self.engine_up[seen] and self.service_up[seen]
        return up / MINUTES

    def failure_share(self, minutes: Iterable[int] = range(MINUTES)) -> float:
        """Failed over all."""
        wanted = list(minutes)
        return sum(self.failed[each] for each in wanted) / sum(self.requests[each] for each in wanted)


def life() -> Life:
    """The history: busy by day, quiet by night, with what went wrong."""
    told = Life()
    for minute in range(MINUTES):
        there = minute not in AWAY
        serving = there and not any(at <= minute < at + took for at, took in SERVICE_DOWN.items())
        asked = round(60 + 50 * math.sin(2 * math.pi * minute / 1440)) if serving else 0
        share = next((share for window, share in FAILING.items() if minute in window), 0.0)
        told.there.append(there)
        told.requests.append(asked)
        told.failed.append(round(asked * share))
        told.engine_up.append(there and not any(at <= minute < at + took for at, (took, _) in DOWN.items()))
        told.service_up.append(serving)
    return told


def blocks(told: Life, ends: int, folder: Path) -> None:
    """Write the history as blocks that a Prometheus finds in `folder`; `ends` is the last minute's time."""
    times = [ends - (MINUTES - 1 - minute) * STEP_S for minute in range(MINUTES)]
    text = folder.with_suffix(".openmetrics")
    text.write_text("".join(_lines(told, times)) + "# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=64h", "openmetrics", "--quiet"]
    subprocess.run([*command, str(text), str(folder)], check=True, capture_output=True)


def _lines(told: Life, times: list[int]) -> Iterator[str]:
    there = told.there
    always = [True] * MINUTES
    for code, failed in (("200", False), ("500", True)):
        counts = [bad if failed else asked - bad for asked, bad in zip(told.requests, told.failed, strict=True)]
        labels = f'{{model="demo",endpoint="/v1/chat/completions",code="{code}"}}'
        yield from _series(
            "counter", f"stoker_requests_total{labels}", _counted(counts, told.service_up), told.service_up, times
        )
    for reason in ("killed", "stalled", "exited", "requested"):
        counts = [int(DOWN.get(minute, (0, ""))[1] == reason) for minute in range(MINUTES)]
        name = f'stoker_engine_restarts_total{{model="demo",reason="{reason}"}}'
        yield from _series("counter", name, _counted(counts, there), there, times)
    for kind in sorted(set(INCIDENTS.values())):
        counts = [int(INCIDENTS.get(minute) == kind) for minute in range(MINUTES)]
        yield from _series("counter", f'stoker_incidents_total{{kind="{kind}"}}', _counted(counts, there), there, times)
    up = [int(each) for each in told.engine_up]
    yield from _series("gauge", 'stoker_engine_up{model="demo"}', up, there, times)
    yield from _series("gauge", "stoker_service_up", [int(each) for each in told.service_up], there, times)
    yield from _series("gauge", 'up{job="stoker-watchdog"}', [int(each) for each in there], always, times)
    for state in State:
        values = [int(state is (State.READY if each else State.STARTING)) for each in up]
        name = f'stoker_engine_state{{model="demo",state="{state.value}"}}'
        yield from _series("gauge", name, values, there, times)


def _counted(counts: list[int], alive: list[bool]) -> list[int]:
    """A counter's values: they begin anew with each process."""
    values, value = [], 0
    for minute, count in enumerate(counts):
        began = alive[minute] and not alive[minute - 1]
        value = count if began else value + count
        values.append(value)
    return values


def _series(kind: str, name: str, values: list[int], there: list[bool], times: list[int]) -> Iterator[str]:
    yield f"# TYPE {name.partition('{')[0].removesuffix('_total')} {kind}\n"
    for value, here, time in zip(values, there, times, strict=True):
        if here:
            yield f"{name} {value} {time}\n"
