"""Faults of the server and of the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from stoker.watchdog.doctor.deaths import FORGOTTEN
from stoker.watchdog.doctor.findings import Layer, Level
from stoker.watchdog.supervisor import State
from tests.watchdog.doctor.faults import START_AGAIN, Deed, Fault, Sign, change, choose, run
from tests.watchdog.doctor.faults_of_the_api import another_program
from tests.watchdog.doctor.patient import GB, MODEL, Patient, make_model
from tests.watchdog.doctor.stand_in import Load

LAST_WORDS = "the last words"
HOLD_THE_LOCK = """
import fcntl, os, pathlib, signal, sys
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
path = pathlib.Path(sys.argv[1])
lock = path.open("w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(sys.argv[2] or str(os.getpid()))
lock.flush()
print("held", flush=True)
sys.stdin.read()
"""
SEE_LAST_WORDS = run("stoker status --json", says=LAST_WORDS)


def take_the_port(patient: Patient) -> None:
    patient.stop()
    patient.set("server.port", int(another_program(patient).rpartition(":")[2]))


def hold_the_lock(patient: Patient) -> None:
    """A watchdog that answers nobody."""
    patient.stop()
    patient.start_program(HOLD_THE_LOCK, str(patient.paths.lock), "")


def leave_orphans(*how: str) -> Callable[[Patient], None]:
    def plant(patient: Patient) -> None:
        patient.stop()
        with subprocess.Popen(["true"]) as gone:
            pass
        patient.start_program(HOLD_THE_LOCK, str(patient.paths.lock), str(gone.pid), *how)

    return plant


def lose_the_keys(patient: Patient) -> None:
    (patient.home / "keys").touch()
    patient.set("server.api_keys", str(patient.home / "keys"))
    patient.serve()


def in_state(child: str, state: State) -> Callable[[Patient], None]:
    def plant(patient: Patient) -> None:
        setattr(patient.tree, child, msgspec.structs.replace(getattr(patient.tree, child), state=state))

    return plant


def a_day_later(patient: Patient) -> None:
    """The deaths are as old as they would be."""
    tree = patient.tree
    for child in ("engine", "service"):
        status = getattr(tree, child)
        if status.last_restart is not None:
            older = msgspec.structs.replace(status.last_restart, at=status.last_restart.at - timedelta(hours=25))
            setattr(tree, child, msgspec.structs.replace(status, last_restart=older))


def service_died(patient: Patient) -> None:
    patient.tree.service_died("exited with 1", LAST_WORDS, datetime.now(UTC))


SERVER = [
    Fault(
        "a key of the configuration that does not exist",
        Sign(Layer.SERVER, "configuration", Level.FAILURE, "port"),
        plant=lambda patient: patient.set("server.prot", 8000),
        cure=(
            run("stoker config schema", says="port"),
            change("mend that", lambda patient: patient.unset("server.prot")),
            run("stoker config check"),
        ),
    ),
    Fault(
        "no tree",
        Sign(Layer.SERVER, "tree", Level.FAILURE),
        plant=Patient.stop,
        cure=(START_AGAIN,),
    ),
    Fault(
        "a port that somebody else has",
        Sign(Layer.SERVER, "port", Level.FAILURE),
        plant=take_the_port,
        cure=(change("stop that program", lambda patient: patient.others.close()), START_AGAIN),
    ),
    Fault(
        "a port that somebody else keeps",
        Sign(Layer.SERVER, "port", Level.FAILURE),
        plant=take_the_port,
        cure=(choose("server.port", 0), START_AGAIN),
    ),
    Fault(
        "a watchdog that does not answer",
        Sign(Layer.SERVER, "tree", Level.FAILURE),
        plant=hold_the_lock,
        cure=(run(r"kill \d+"), START_AGAIN),
    ),
    Fault(
        "a lock that outlives its tree",
        Sign(Layer.SERVER, "tree", Level.FAILURE, "gone"),
        plant=leave_orphans(),
        cure=(run(r"kill \$\(lsof .*\)"), START_AGAIN),
        needs="lsof",
    ),
    Fault(
        "a lock whose holder hears no SIGTERM",
        Sign(Layer.SERVER, "tree", Level.FAILURE, "gone"),
        plant=leave_orphans("deaf"),
        cure=(run(r"kill -9 \$\(lsof .*\)"), START_AGAIN),
        needs="lsof",
    ),
    Fault(
        "a service that cannot read its keys",
        Sign(Layer.SERVER, "service", Level.FAILURE),
        plant=lose_the_keys,
        cure=(
            run("stoker status --json", says="add one, or unset `server.api_keys`"),
            change("mend what it said", lambda patient: patient.unset("server.api_keys")),
            START_AGAIN,
        ),
    ),
    Fault(
        "a service that still starts",
        Sign(Layer.SERVER, "service", Level.WARNING),
        plant=in_state("service", State.STARTING),
        cure=(run("stoker status"), change("wait", in_state("service", State.READY))),
    ),
    Fault(
        "a service that died",
        Sign(Layer.SERVER, "service", Level.WARNING),
        plant=service_died,
        cure=(SEE_LAST_WORDS, change(FORGOTTEN, a_day_later)),
    ),
    Fault(
        "load that is turned away",
        Sign(Layer.SERVER, "load", Level.WARNING, "thermal"),
        plant=lambda patient: patient.box.heat(97.0),
        cure=(change("it ends with its cause", lambda patient: patient.box.heat(60.0)),),
    ),
]


def damage_the_weights(patient: Patient) -> None:
    weights = patient.folder_of(MODEL) / "model.safetensors"
    os.truncate(weights, GB)


def fail_at_damaged_weights(patient: Patient) -> None:
    damage_the_weights(patient)
    patient.tree.restart_engine()


def mend_the_weights(patient: Patient) -> None:
    shutil.rmtree(patient.folder_of(MODEL))
    make_model(patient.folder_of(MODEL), 4 * GB)


def killed_for_memory(patient: Patient) -> None:
    patient.box.memory(available_bytes=GB)
    engine_died("killed by SIGKILL")(patient)


def engine_died(reason: str) -> Callable[[Patient], None]:
    return lambda patient: patient.tree.engine_died(reason, LAST_WORDS, datetime.now(UTC))


def under(load: Load) -> Callable[[Patient], None]:
    """So much is asked of the tree, from its next start on too."""

    def plant(patient: Patient) -> None:
        patient.load = load
        patient.serve()

    return plant


NONCES = tuple(f"Current date: 2026-01-31 10:00:{second:02}\n" + "You write code. " * 100 for second in range(40))
GO_ON: tuple[Deed, ...] = (change(FORGOTTEN, a_day_later),)

ENGINE = [
    Fault(
        "an engine that hangs",
        Sign(Layer.ENGINE, "last step", Level.FAILURE),
        plant=lambda patient: patient.tree.hang(),
        cure=(run("stoker engine restart"),),
    ),
    Fault(
        "an engine that still starts",
        Sign(Layer.ENGINE, "state", Level.WARNING),
        plant=in_state("engine", State.STARTING),
        cure=(run("stoker status"), change("wait", in_state("engine", State.READY))),
    ),
    Fault(
        "an engine that stays away",
        Sign(Layer.ENGINE, "state", Level.FAILURE, "cut off"),
        plant=fail_at_damaged_weights,
        cure=(change("mend what it says", mend_the_weights), run("stoker engine restart")),
    ),
    Fault(
        "an engine that the kernel killed",
        Sign(Layer.ENGINE, "restarts", Level.WARNING),
        plant=killed_for_memory,
        cure=(change("see the hardware layer", lambda patient: patient.box.memory()), *GO_ON),
    ),
    Fault(
        "an engine that had hung",
        Sign(Layer.ENGINE, "restarts", Level.WARNING),
        plant=engine_died("no step for 10.1 s"),
        cure=(change("logs/stoker.log", lambda patient: None), *GO_ON),
    ),
    Fault(
        "an engine that ended",
        Sign(Layer.ENGINE, "restarts", Level.WARNING),
        plant=engine_died("exited with 1"),
        cure=(SEE_LAST_WORDS, *GO_ON),
    ),
    Fault(
        "memory that requests fill to its limit",
        Sign(Layer.ENGINE, "memory", Level.WARNING),
        plant=under(Load(running_bytes=7 * GB, limit_bytes=10 * GB)),
        cure=(choose("engine.kv_budget_bytes", 4 * GB), START_AGAIN),
    ),
    Fault(
        "memory that the prefix cache fills to its limit",
        Sign(Layer.ENGINE, "memory", Level.WARNING),
        plant=under(Load(running_bytes=5 * GB, prefix_bytes=5 * GB, limit_bytes=10 * GB)),
        cure=(choose("engine.prefix_cache_ram_bytes", GB), START_AGAIN),
    ),
    Fault(
        "prompts that begin with the time",
        Sign(Layer.ENGINE, "prefix cache", Level.WARNING, "diverged"),
        plant=under(Load(prompts=NONCES)),
        cure=(choose("server.canonical.move_dates", True), START_AGAIN),
    ),
    Fault(
        "a prefix cache that is too small",
        Sign(Layer.ENGINE, "prefix cache", Level.WARNING, "evicted"),
        plant=under(Load(prefix_bytes=20 * GB, prompts=("You write code. " * 100,) * 40)),
        cure=(choose("engine.prefix_cache_disk_bytes", 30 * GB), START_AGAIN),
    ),
]
