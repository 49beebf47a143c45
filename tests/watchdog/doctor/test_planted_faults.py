"""Each planted fault is named at its layer, and is over once the words of its remedy have been carried out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.watchdog.doctor.findings import Finding, Layer, Level
from tests.watchdog.doctor.faults import Fault
from tests.watchdog.doctor.faults_of_the_api import API
from tests.watchdog.doctor.faults_of_the_machine import BACKEND, HARDWARE, RUNTIME
from tests.watchdog.doctor.faults_of_the_tree import ENGINE, SERVER
from tests.watchdog.doctor.patient import GB, Patient, make_model, without_network

FAULTS = [*API, *SERVER, *ENGINE, *RUNTIME, *BACKEND, *HARDWARE]


@pytest.fixture
def make_patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], Patient]]:
    without_network(monkeypatch)
    patients: list[Patient] = []

    def make(on_a_mac: bool) -> Patient:
        patients.append(Patient(tmp_path, on_a_mac))
        patients[0].serve()
        return patients[0]

    yield make
    for patient in patients:
        patient.close()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_its_remedy_works(fault: Fault, make_patient: Callable[[bool], Patient]) -> None:
    if fault.needs is not None and shutil.which(fault.needs) is None:
        pytest.skip(f"the remedy runs `{fault.needs}`, which is not installed here")
    patient = make_patient(fault.on_a_mac)
    assert not patient.ills()
    fault.plant(patient)
    found = finding_of(fault, patient)
    assert found.remedy is not None
    for deed in fault.cure:
        deed(patient, found.remedy)
    assert not patient.ills()


def finding_of(fault: Fault, patient: Patient) -> Finding:
    """What names it, among whatever follows from it."""
    sign = fault.sign
    (found,) = [each for each in patient.ills() if (each.layer, each.check) == (sign.layer, sign.check)]
    assert found.level is sign.level
    assert sign.measured in found.measured
    return found


def test_they_are_many_and_in_every_layer() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
    assert {fault.sign.layer for fault in FAULTS} == set(Layer)


def test_whatever_is_not_well_says_what_to_do(make_patient: Callable[[bool], Patient]) -> None:
    patient = make_patient(False)
    patient.stop()
    patient.set("server.prot", 8000)
    assert all(found.remedy for found in patient.ills() if found.level is not Level.SKIPPED)


def test_a_tree_that_was_told_of_another_model_is_examined_with_that(make_patient: Callable[[bool], Patient]) -> None:
    patient = make_patient(False)
    make_model(patient.folder_of("example/base"), GB, template=None)
    patient.serve(model="example/base")
    assert "chat template" in {found.check for found in patient.ills()}
    patient.serve()
    assert not patient.ills()
