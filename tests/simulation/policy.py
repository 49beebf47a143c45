"""The policy through 72 hours of random verdicts, and what must hold whatever they are.

`python -m tests.simulation.policy --runs 1000` lives through a thousand of them.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from rich.progress import track

from stoker.watchdog.courses import RECOVER_S
from stoker.watchdog.decisions import (
    CloseCircuit,
    Conditions,
    Observe,
    OpenCircuit,
    PlannedRestart,
    Reclaim,
    RestartNow,
    Shed,
    Tighten,
)
from stoker.watchdog.policy import COOL_DOWN_S, DAY_S, RESTARTS_A_DAY, State, decide
from stoker.watchdog.verdicts import Cause, DetectorName, Level, Number, Verdict

WELL = Conditions(engine_up_s=36_000.0, quiet_s=600.0)
CAUSES = {
    DetectorName.PRESSURE: (None, Cause.OURS, Cause.OTHERS),
    DetectorName.SWAP: (None, Cause.OURS, Cause.OTHERS),
    DetectorName.FRAGMENTATION: (Cause.POOL, Cause.PREFIX_CACHE),
    DetectorName.DESCRIPTORS: (Cause.ENGINE, Cause.SERVICE),
    DetectorName.CANARY: (Cause.WRONG, Cause.LATE, Cause.UNANSWERED),
}
RESTARTS = PlannedRestart | RestartNow


def verdict(
    name: DetectorName,
    level: Level = Level.FIRING,
    cause: Cause | None = None,
    exhaustion_s: float | None = None,
    shed_level: int | None = None,
) -> Verdict:
    said = {Number.EXHAUSTION_SECONDS: exhaustion_s, Number.SHED_LEVEL: shed_level}
    numbers = {number: float(value) for number, value in said.items() if value is not None}
    return Verdict(name, level, f"{name} is {level} by 42", numbers, cause=cause)


def random_verdicts(draw: random.Random) -> Iterator[tuple[list[Verdict], Conditions]]:
    """A 72-hour run of verdicts a minute: each detector keeps its level for a random while, from a minute to hours."""
    levels: dict[DetectorName, tuple[Level, Cause | None, int]] = {}
    up_s, quiet_s = 0.0, 0.0
    for _ in range(72 * 60):
        for name in DetectorName:
            level, cause, left = levels.get(name, (Level.OK, None, 0))
            if left == 0:
                level = draw.choices(list(Level), (6, 1, 2))[0]
                cause = draw.choice(CAUSES.get(name, (None,)))
                left = int(10 ** draw.uniform(0, 2.5))
            levels[name] = (level, cause, left - 1)
        up_s = 0.0 if draw.random() < 0.0005 else up_s + 60
        quiet_s = 0.0 if draw.random() < 0.2 else quiet_s + 60
        shed_level = draw.choice((0, 0, 0, 1, 2, 3))
        verdicts = [
            verdict(
                name,
                level,
                cause,
                draw.uniform(0, 1e5) if name is DetectorName.LEAK else None,
                shed_level if name is DetectorName.PRESSURE and level is Level.FIRING else None,
            )
            for name, (level, cause, _) in levels.items()
        ]
        yield verdicts, Conditions(up_s if up_s > 120 else None, quiet_s)


def check_run(seed: int) -> None:
    """The invariants, over one run of random verdicts and the hours of health after it."""
    state, now = State(), 0.0
    restarted_at, raised_at = float("-inf"), {Tighten: float("-inf"), Shed: float("-inf")}
    restarts, levels = [], {Tighten: 0, Shed: 0}
    circuit = False
    at_once, asked_before = 0.0, 0.0
    for verdicts, conditions in random_verdicts(random.Random(seed)):
        now += 60.0
        asked_before, at_once = at_once, max(each.numbers.get(Number.SHED_LEVEL, 0.0) for each in verdicts)
        firing = {each.detector for each in verdicts if each.level is Level.FIRING}
        ours = {each.detector for each in verdicts if each.level is Level.FIRING and each.cause is not Cause.OTHERS}
        state, decided = decide(state, verdicts, conditions, now)
        for decision in decided:
            action = decision.action
            assert any(character.isdigit() for character in decision.sentence), decision
            if isinstance(action, RESTARTS):
                assert now - restarted_at >= COOL_DOWN_S, "two restarts within the cool-down"
                assert conditions.engine_up_s is not None
                assert conditions.engine_up_s >= COOL_DOWN_S, "a restart within the cool-down of another's"
                assert not circuit, "a restart while the circuit is open"
                assert decision.detector in ours - {DetectorName.THERMAL}, "a restart that cannot help"
                assert isinstance(action, RestartNow) or conditions.quiet_s > 0
                restarted_at = now
                restarts.append(now)
            elif isinstance(action, Tighten | Shed):
                kind = type(action)
                if action.level > levels[kind]:
                    assert decision.detector in firing, "an action without evidence"
                    if kind is Tighten or action.level > at_once:
                        raised_at[kind] = now
                else:
                    # How long a level lasts that memory asked for at once is the detector's doing.
                    by_memory = kind is Shed and levels[kind] == asked_before
                    assert by_memory or now - raised_at[kind] >= RECOVER_S, "swinging"
                levels[kind] = action.level
            elif isinstance(action, OpenCircuit | CloseCircuit):
                assert circuit is isinstance(action, CloseCircuit)
                circuit = not circuit
            else:
                assert decision.detector in firing, "an action without evidence"
    assert max((sum(at <= other < at + DAY_S for other in restarts) for at in restarts), default=0) <= RESTARTS_A_DAY
    for _ in range(27 * 60):
        now += 60.0
        state, decided = decide(state, [], WELL, now)
        assert not [each for each in decided if isinstance(each.action, RESTARTS | Reclaim | Observe)]
    assert (state.tighten, state.shed, state.circuit_opened_at, state.courses) == (0, 0, None, {}), "not undone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for seed in track(range(arguments.seed, arguments.seed + arguments.runs), "72-hour runs of random verdicts"):
        check_run(seed)
    print(f"the policy's invariants hold in {arguments.runs} runs (seeds from {arguments.seed})")


if __name__ == "__main__":
    main()
