"""What a planted fault is, and how the words of a remedy are carried out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.watchdog.doctor.findings import Layer, Level
from tests.watchdog.doctor.patient import Patient

Deed = Callable[[Patient, str], object]
"""Done to a patient because of a remedy; fails where the remedy does not say so."""


@dataclass(frozen=True)
class Sign:
    """The finding that names a fault; `measured` are words of what was measured."""

    layer: Layer
    check: str
    level: Level
    measured: str = ""


@dataclass(frozen=True)
class Fault:
    """One thing that can be wrong: how it shows, how it comes, and what is done because of its remedy's words."""

    name: str
    sign: Sign
    plant: Callable[[Patient], object]
    cure: tuple[Deed, ...]
    on_a_mac: bool = False
    needs: str | None = None
    """A program that its cure runs."""


def run(command: str, name: str = "", says: str = "") -> Deed:
    """Run the command that stands in the remedy between backticks; `command` is a pattern for all of it.

    `name` is what a person puts where it says NAME; `says` must be in its output.
    """

    def deed(patient: Patient, remedy: str) -> None:
        (quoted,) = {each for each in re.findall(r"`([^`]+)`", remedy) if re.fullmatch(command, each)}
        assert says in patient.run(quoted.replace("NAME", name))

    return deed


def choose(key: str, value: Any) -> Deed:
    """Write the setting that the remedy names, or one of the table that it names."""

    def deed(patient: Patient, remedy: str) -> None:
        assert f"`{key}`" in remedy or f"`[{key.rpartition('.')[0]}]`" in remedy
        patient.set(key, value)

    return deed


def change(words: str, doing: Callable[[Patient], object]) -> Deed:
    """What no test can do itself (let a machine cool, buy another one): the recorded change stands for it."""

    def deed(patient: Patient, remedy: str) -> None:
        assert words in remedy
        doing(patient)

    return deed


START_AGAIN = run("stoker serve")
