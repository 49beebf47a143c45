"""The `stoker` command where no tree runs; tests/e2e has it where one does."""

from __future__ import annotations

import contextvars
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stoker import __version__
from stoker.config import Config
from stoker.watchdog.commands import options
from tests.e2e.running import STOKER, stoker
from tests.tiny_models import make_tiny_llama


def test_the_version_is_told(tmp_path: Path) -> None:
    assert stoker(tmp_path, "--version").stdout == f"stoker {__version__}\n"


@pytest.mark.parametrize("arguments", [("serv",), ("status", "--jsn"), ("serve", "--port", "x"), ("engine", "start")])
def test_misuse_ends_with_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    told = stoker(tmp_path, *arguments)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr


def test_the_command_line_never_loads_what_only_an_engine_needs() -> None:
    modules = "mlx mlx_lm aiohttp transformers rich.table"
    code = f"import sys, stoker.cli; print([name for name in {modules.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_watchdog_never_loads_mlx() -> None:
    code = "import sys, stoker.watchdog.tree; print([name for name in sys.modules if name.startswith('mlx')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_shells_complete_commands_and_options(tmp_path: Path) -> None:
    def completed(line: str) -> list[str]:
        asking = {"_STOKER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        environment = {**os.environ, "STOKER_HOME": str(tmp_path), **asking}
        return subprocess.run([STOKER], env=environment, capture_output=True, text=True, check=False).stdout.split()

    assert completed("stoker eng") == ["engine"]
    assert {"restart", "drain", "resume"} <= set(completed("stoker engine re") + completed("stoker engine dr"))
    assert "--symptom" in completed("stoker doctor --sy")


def test_quiet_leaves_out_progress_and_hints(capsys: pytest.CaptureFixture[str]) -> None:
    def speak(quiet: bool) -> str:
        options.set_quiet(quiet)
        options.hint("it may help to know")
        options.aside().print("working")
        return capsys.readouterr().err

    assert contextvars.copy_context().run(speak, False) == "it may help to know\nworking\n"
    assert contextvars.copy_context().run(speak, True) == ""


def test_colours_are_for_terminals_alone(tmp_path: Path) -> None:
    for command in (("--help",), ("doctor",), ("status",), ("incidents",), ("serv",)):
        told = stoker(tmp_path, *command)
        assert "\x1b" not in told.stdout + told.stderr, command


def test_the_status_of_nothing_is_no(tmp_path: Path) -> None:
    told = stoker(tmp_path, "status")
    assert told.returncode == 1
    assert told.stderr == (f"stoker: no stoker runs on {tmp_path}; start it with `stoker serve`, or set STOKER_HOME\n")


def test_the_status_of_nothing_has_a_json_form(tmp_path: Path) -> None:
    told = stoker(tmp_path, "status", "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout)["ready"] is False


def test_an_engine_of_nothing_cannot_be_restarted(tmp_path: Path) -> None:
    told = stoker(tmp_path, "engine", "restart")
    assert (told.returncode, told.stdout) == (2, "")
    assert "no stoker runs" in told.stderr


def test_the_configuration_that_is_shown_is_the_one_that_is_in_force(tmp_path: Path) -> None:
    text = """
        [server]
        port = 9
        [engine]
        model = '/a "b"/ü'
        [engine.simulated]
        faults = [{kind = "slow", amount = 2.5}]
    """
    (tmp_path / "stoker.toml").write_text(text, encoding="utf-8")
    as_toml = Config.model_validate(tomllib.loads(stoker(tmp_path, "config", "show").stdout))
    as_json = Config.model_validate_json(stoker(tmp_path, "config", "show", "--json").stdout)
    assert as_toml == as_json == Config.model_validate(tomllib.loads(text))
    assert as_toml.server.port == 9


def test_a_valid_configuration_is_said_to_be(tmp_path: Path) -> None:
    assert stoker(tmp_path, "config", "check").returncode == 0
    assert json.loads(stoker(tmp_path, "config", "check", "--json").stdout) == {"valid": True}


def test_an_invalid_configuration_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[server]\nprot = 1", encoding="utf-8")
    told = stoker(tmp_path, "config", "check", "--config", str(tmp_path / "bad.toml"))
    assert told.returncode == 1
    assert "did you mean `server.port`?" in told.stderr
    told = stoker(tmp_path, "config", "check", "--json", "--config", str(tmp_path / "bad.toml"))
    assert json.loads(told.stdout)["valid"] is False


def test_every_key_is_in_the_schema(tmp_path: Path) -> None:
    table = stoker(tmp_path, "config", "schema").stdout
    assert "watchdog.restart.intensity" in table
    assert "Port of the API" in table
    assert json.loads(stoker(tmp_path, "config", "schema", "--json").stdout)["title"] == "Config"


def test_models_that_are_there_are_listed(tmp_path: Path) -> None:
    assert json.loads(stoker(tmp_path, "models", "list", "--json").stdout) == []
    assert "no models yet" in stoker(tmp_path, "models", "list").stdout
    (tmp_path / "models").mkdir()
    make_tiny_llama(tmp_path / "models" / "org--tiny")
    (model,) = json.loads(stoker(tmp_path, "models", "list", "--json").stdout)
    assert (model["name"], model["architecture"]) == ("org/tiny", "llama")
    assert "org/tiny" in stoker(tmp_path, "models", "list").stdout


def test_a_model_that_is_no_model_cannot_be_pulled(tmp_path: Path) -> None:
    told = stoker(tmp_path, "models", "pull", f"{tmp_path}/nothing")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("stoker: there is no model folder")
