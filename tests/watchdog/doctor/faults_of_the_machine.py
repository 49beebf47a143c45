"""Faults of the runtime, of the backend and of the hardware."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

from stoker.watchdog.doctor.findings import Layer, Level
from tests.watchdog.doctor.faults import START_AGAIN, Deed, Fault, Sign, change, choose, run
from tests.watchdog.doctor.faults_of_the_tree import damage_the_weights
from tests.watchdog.doctor.patient import GB, MODEL, Patient, make_model

LARGE = "example/large"
OTHER = "example/other"


def serve_instead(model: str, size: int, **how: Any) -> Callable[[Patient], None]:
    """A model of that size, made for the purpose."""

    def plant(patient: Patient) -> None:
        make_model(patient.folder_of(model), size, **how)
        patient.set("engine.model", model)
        patient.serve()

    return plant


def spoil_the_template(template: str | None) -> Callable[[Patient], None]:
    def plant(patient: Patient) -> None:
        (patient.folder_of(MODEL) / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        patient.serve()

    return plant


def serve_a_spoilt_folder_of_my_own(patient: Patient) -> None:
    folder = make_model(patient.home / "mine", GB, template="{{ messages[0].text }}")
    patient.set("engine.model", str(folder))
    patient.serve()


def put_my_files_back(patient: Patient) -> None:
    shutil.rmtree(patient.home / "mine")
    make_model(patient.home / "mine", GB)


def change_the_type(patient: Patient) -> None:
    config = patient.folder_of(MODEL) / "config.json"
    config.write_text(json.dumps({"model_type": "of_tomorrow"}))
    make_model(patient.folder_of(OTHER), GB)


def lose_the_model(patient: Patient) -> None:
    patient.stop()
    shutil.rmtree(patient.folder_of(MODEL))


def move_away(patient: Patient) -> None:
    patient.folder_of(MODEL).rename(patient.home / "moved away")


FETCH_AGAIN: tuple[Deed, ...] = (run(f"stoker models pull {MODEL}"), START_AGAIN)

RUNTIME = [
    Fault(
        "a model that is too large",
        Sign(Layer.RUNTIME, "size", Level.FAILURE),
        plant=serve_instead(LARGE, 40 * GB),
        cure=(
            run(f"stoker models convert {LARGE} --bits 4", says=f"{LARGE}-4bit"),
            choose("engine.model", f"{LARGE}-4bit"),
            START_AGAIN,
        ),
    ),
    Fault(
        "a quantized model that is too large",
        Sign(Layer.RUNTIME, "size", Level.FAILURE),
        plant=serve_instead(LARGE, 40 * GB, bits=4),
        cure=(choose("engine.model", MODEL), START_AGAIN),
    ),
    Fault(
        "a quantized model on a CPU",
        Sign(Layer.RUNTIME, "precision", Level.WARNING),
        plant=serve_instead(OTHER, GB, bits=4),
        cure=(
            run("stoker models convert NAME --dtype float32", name=MODEL),
            choose("engine.model", f"{MODEL}-float32"),
            START_AGAIN,
        ),
    ),
    Fault(
        "weights that are cut off",
        Sign(Layer.RUNTIME, "model", Level.FAILURE, "cut off"),
        plant=damage_the_weights,
        cure=(change("do as it says", move_away), *FETCH_AGAIN),
    ),
    Fault(
        "a model of a type that there is not yet",
        Sign(Layer.RUNTIME, "model", Level.FAILURE, "of_tomorrow"),
        plant=change_the_type,
        cure=(choose("engine.model", OTHER), START_AGAIN),
    ),
    Fault(
        "a model that is still to be fetched",
        Sign(Layer.RUNTIME, "model", Level.WARNING),
        plant=lose_the_model,
        cure=FETCH_AGAIN,
    ),
    Fault(
        "a base model",
        Sign(Layer.RUNTIME, "chat template", Level.WARNING),
        plant=serve_instead(OTHER, GB, template=None),
        cure=(choose("engine.model", MODEL), START_AGAIN),
    ),
    Fault(
        "another model's chat template",
        Sign(Layer.RUNTIME, "chat template", Level.FAILURE),
        plant=spoil_the_template("{{ messages[0].text }}"),
        cure=(change("move", move_away), *FETCH_AGAIN),
    ),
    Fault(
        "a chat template that is cut off",
        Sign(Layer.RUNTIME, "chat template", Level.FAILURE),
        plant=spoil_the_template("{% for m in messages %}"),
        cure=(change("move", move_away), *FETCH_AGAIN),
    ),
    Fault(
        "another model's chat template in a folder of my own",
        Sign(Layer.RUNTIME, "chat template", Level.FAILURE),
        plant=serve_a_spoilt_folder_of_my_own,
        cure=(change("put the model's own files into", put_my_files_back), START_AGAIN),
    ),
]


def remove_openblas(patient: Patient) -> None:
    patient.box.files.clear()
    patient.serve()


def install_openblas_late(patient: Patient) -> None:
    remove_openblas(patient)
    patient.run("apt-get install libopenblas0-pthread")


def become(processor: str) -> Callable[[Patient], None]:
    def plant(patient: Patient) -> None:
        patient.machine.machine = processor

    return plant


BACKEND = [
    Fault(
        "no OpenBLAS",
        Sign(Layer.BACKEND, "OpenBLAS", Level.FAILURE),
        plant=remove_openblas,
        cure=(run("apt-get install .*"), change("start again", Patient.serve)),
    ),
    Fault(
        "an engine that is older than its OpenBLAS",
        Sign(Layer.BACKEND, "OpenBLAS", Level.FAILURE),
        plant=install_openblas_late,
        cure=(run("stoker engine restart"),),
    ),
    Fault(
        "a GPU that may not keep the weights",
        Sign(Layer.BACKEND, "wired limit", Level.FAILURE),
        plant=serve_instead(LARGE, 54 * GB),
        cure=(run(r"sudo sysctl iogpu.wired_limit_mb=\d+"),),
        on_a_mac=True,
    ),
    Fault(
        "a Mac with an Intel processor",
        Sign(Layer.BACKEND, "backend", Level.FAILURE),
        plant=become("x86_64"),
        cure=(change("a Mac with Apple silicon", become("arm64")),),
        on_a_mac=True,
    ),
]


def on_the_mac(**values: Any) -> Callable[[Patient], None]:
    """Set what it shows."""

    def plant(patient: Patient) -> None:
        for name, value in values.items():
            setattr(patient.mac, name, value)

    return plant


def on_the_disk(**values: Any) -> Callable[[Patient], None]:
    def plant(patient: Patient) -> None:
        for name, value in values.items():
            setattr(patient.machine, f"disk_{name}", value)

    return plant


def fill_the_disk(patient: Patient) -> None:
    make_model(patient.folder_of(OTHER), 495 * GB + GB // 2)


READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS))

HARDWARE = [
    Fault(
        "a swap that is full",
        Sign(Layer.HARDWARE, "swap", Level.FAILURE),
        plant=lambda patient: patient.box.memory(swap_used_bytes=8 * GB),
        cure=(change("close other programs", lambda patient: patient.box.memory()),),
    ),
    Fault(
        "a Mac's swap that is full",
        Sign(Layer.HARDWARE, "swap", Level.FAILURE),
        plant=on_the_mac(swap_used_bytes=8 * GB),
        cure=(change("close other programs", on_the_mac(swap_used_bytes=0)),),
        on_a_mac=True,
    ),
    Fault(
        "memory that other programs take",
        Sign(Layer.HARDWARE, "memory", Level.WARNING),
        plant=lambda patient: patient.box.memory(available_bytes=GB),
        cure=(change("close other programs", lambda patient: patient.box.memory()),),
    ),
    Fault(
        "a machine that is too hot",
        Sign(Layer.HARDWARE, "heat", Level.FAILURE),
        plant=lambda patient: patient.box.heat(97.0),
        cure=(change("give it air", lambda patient: patient.box.heat(60.0)),),
    ),
    Fault(
        "a Mac that becomes hot",
        Sign(Layer.HARDWARE, "heat", Level.WARNING),
        plant=on_the_mac(thermal_level=1),
        cure=(change("give it air", on_the_mac(thermal_level=0)),),
        on_a_mac=True,
    ),
    Fault(
        "a clock that is held down",
        Sign(Layer.HARDWARE, "clock", Level.WARNING),
        plant=lambda patient: patient.box.clock(1_600_000),
        cure=(change("choose full power", lambda patient: patient.box.clock(3_900_000)),),
    ),
    Fault(
        "a Mac's disk that sleeps",
        Sign(Layer.HARDWARE, "disk", Level.WARNING),
        plant=on_the_disk(is_slow=True),
        cure=(run("sudo pmset -a disksleep 0"),),
        on_a_mac=True,
    ),
    Fault(
        "a disk that is slow",
        Sign(Layer.HARDWARE, "disk", Level.WARNING),
        plant=on_the_disk(is_slow=True),
        cure=(change("move $STOKER_HOME to another one", on_the_disk(is_slow=False)),),
    ),
    Fault(
        "a disk that is full",
        Sign(Layer.HARDWARE, "disk", Level.FAILURE),
        plant=fill_the_disk,
        cure=(run("stoker models list", says=OTHER), run("stoker models remove NAME", name=OTHER)),
    ),
    Fault(
        "a disk that cannot be written",
        Sign(Layer.HARDWARE, "disk", Level.FAILURE, "Read-only"),
        plant=on_the_disk(error=READ_ONLY),
        cure=(change("mend that", on_the_disk(error=None)),),
    ),
    Fault(
        "a Mac that goes to sleep",
        Sign(Layer.HARDWARE, "sleep", Level.WARNING),
        plant=lambda patient: patient.mac.power.update(sleep=10),
        cure=(run("sudo pmset -a sleep 0"),),
        on_a_mac=True,
    ),
    Fault(
        "a Mac on its battery",
        Sign(Layer.HARDWARE, "sleep", Level.WARNING),
        plant=on_the_mac(on_battery=True),
        cure=(change("plug it in", on_the_mac(on_battery=False)),),
        on_a_mac=True,
    ),
]
