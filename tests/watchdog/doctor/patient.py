"""Somebody's machine with a tree on it, well as it is made: to plant faults in, to examine, and to mend."""

from __future__ import annotations

import contextlib
import json
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from stoker.cli import app
from stoker.config import Paths, load
from stoker.engine import conversion, models
from stoker.engine.conversion import Precision
from stoker.engine.progress import Progress
from stoker.watchdog.doctor.examination import Examination, examine_foreign
from stoker.watchdog.doctor.findings import Finding, Level
from stoker.watchdog.door import premises
from stoker.watchdog.home import Serving, admin_token, replace_private, serving_path
from stoker.watchdog.samples import HostReading
from tests.engine.recorded_progress import RecordedProgress
from tests.watchdog.doctor.recorded import LinuxBox, Mac
from tests.watchdog.doctor.stand_in import Load, StandIn, listening
from tests.watchdog.sensors.trees import Tree

DEADLINE_S = 30.0
GB = 10**9
MODEL = "example/well"
TEMPLATE = "{% if tools %}{{ tools }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"


def make_model(folder: Path, size: int, *, bits: int | None = None, template: str | None = TEMPLATE) -> Path:
    """A model folder that is as large as `size` says and holds nothing: its weights are one hole."""
    folder.mkdir(parents=True)
    config: dict[str, Any] = {"model_type": "llama", "max_position_embeddings": 4096}
    if bits is not None:
        config["quantization"] = {"bits": bits, "group_size": 64}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    return folder


class Patient:
    """A home, a recorded machine, and a stand-in for the tree between `serve` and `stop`."""

    def __init__(self, root: Path, on_a_mac: bool) -> None:
        self.box = LinuxBox(Tree(root / "machine"))
        self.mac = Mac()
        self.machine = self.mac if on_a_mac else self.box
        self.home = root / "home"
        self.home.mkdir()
        self.paths = Paths(self.home)
        self.url: str | None = None
        """Given with `--url`: somebody else's server is asked instead."""
        self.key: str | None = None
        self.load = Load()
        self.others = contextlib.ExitStack()
        """Whatever has nothing to do with the tree, until it is closed."""
        self.programs: list[subprocess.Popen[str]] = []
        self._tree: StandIn | None = None
        self._life = contextlib.ExitStack()
        make_model(self.folder_of(MODEL), 4 * GB)
        self.settings: dict[str, dict[str, Any]] = {
            "server": {"port": 0},
            "engine": {"model": MODEL},
            "watchdog": {"port": 0},
            "watchdog.sensors": {"proc": str(self.box.tree.proc), "sys": str(self.box.tree.sys)},
        }
        self.write_settings()

    @property
    def tree(self) -> StandIn:
        """The one that runs."""
        assert self._tree is not None
        return self._tree

    def folder_of(self, model: str) -> Path:
        return self.paths.models / model.replace("/", "--")

    def set(self, key: str, value: Any) -> None:
        """Write a setting into stoker.toml; it counts from the next start on."""
        table, _, name = key.rpartition(".")
        self.settings.setdefault(table, {})[name] = value
        self.write_settings()

    def unset(self, key: str) -> None:
        table, _, name = key.rpartition(".")
        del self.settings[table][name]
        self.write_settings()

    def write_settings(self) -> None:
        tables = (
            "\n".join([f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""])
            for table, values in self.settings.items()
        )
        self.paths.config.write_text("\n".join(tables))

    def examine(self) -> list[Finding]:
        if self.url is not None:
            return examine_foreign(self.url, self.key)
        return Examination(self.paths, None, self.key, self.machine.system()).findings(None)

    def ills(self) -> list[Finding]:
        """Whatever is not well."""
        return [finding for finding in self.examine() if finding.level is not Level.OK]

    def serve(self, model: str | None = None) -> None:
        """`stoker serve`, as far as its door, or `stoker serve --model`; a tree that runs is stopped first."""
        self.stop()
        config = load(None, self.paths, {} if model is None else {"engine": {"model": model}})
        held = self._life.enter_context(premises(config, self.paths, RecordedProgress(), lambda word: None))

        def host() -> HostReading:
            return self.machine.sensor(self.home, config.watchdog.sensors).read()

        self._tree = StandIn(held, self.load, host, self.box.begin_engine)
        api = self._life.enter_context(listening(self._tree.answer, held.api.open()))
        watchdog = self._life.enter_context(listening(self._tree.answer, held.watchdog.open()))
        admin_token(self.paths)
        self._life.callback(serving_path(self.paths).unlink)
        replace_private(serving_path(self.paths), msgspec.json.encode(Serving(0, api, watchdog)))

    def stop(self) -> None:
        self._life.close()
        self._tree = None

    def start_program(self, source: str, *arguments: str) -> None:
        """Another Python program; it has printed its first line when this returns."""
        program = subprocess.Popen(
            [sys.executable, "-c", source, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.programs.append(self.others.enter_context(program))
        self.others.callback(program.kill)
        assert program.stdout is not None
        program.stdout.readline()

    def close(self) -> None:
        self.stop()
        self.others.close()

    def run(self, command: str) -> str:
        """Run what a person would type, here or on the recorded machine; returns what it says."""
        words = shlex.split(command)
        if words == ["stoker", "serve"]:
            self.serve()
        elif words[0] == "stoker":
            return self._run_stoker(words[1:])
        elif words[0] == "kill":
            subprocess.run(["/bin/sh", "-c", command], check=True, timeout=DEADLINE_S)
            for program in self.programs:
                program.wait(DEADLINE_S)
        else:
            self.machine.obey(*words)
        return ""

    def _run_stoker(self, arguments: list[str]) -> str:
        done = CliRunner().invoke(app, arguments, env={"STOKER_HOME": str(self.home), "COLUMNS": "200"}, input="y\n")
        # A status that is not `ready` is an answer too.
        assert done.exit_code == 0 or arguments[0] == "status", done.output or done.exception
        return done.output


def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are fetched and converted without what takes long: what comes is like the well one, only smaller."""

    def pull(name: str, staging: Path, progress: Progress) -> None:
        make_model(staging, 4 * GB)

    def convert(source: Path, staging: Path, precision: Precision, progress: Progress) -> None:
        bits = None if precision.bits is None else int(precision.bits)
        make_model(staging, models.check(source).bytes * (bits or 32) // 32, bits=bits)

    monkeypatch.setattr(models, "pull_from_hub", pull)
    monkeypatch.setattr(conversion, "convert", convert)
