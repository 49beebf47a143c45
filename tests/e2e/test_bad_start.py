"""`stoker serve` where it cannot: one sentence, exit code 2, and nothing left behind."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from tests.e2e.running import SIMULATED, RunningTree, stoker


def refused(home: Path, config: str, *arguments: str) -> str:
    """The one sentence with which serving ends."""
    home.mkdir(exist_ok=True)
    (home / "stoker.toml").write_text(config, encoding="utf-8")
    told = stoker(home, "serve", *arguments)
    assert (told.returncode, told.stdout) == (2, "")
    assert "Traceback" not in told.stderr
    (sentence,) = told.stderr.splitlines()
    return sentence


def test_a_second_tree_on_one_home_is_refused_with_the_pid_of_the_first(tree: RunningTree) -> None:
    before = sorted(path.name for path in tree.paths.run.iterdir())
    told = stoker(tree.home, "serve")
    assert told.returncode == 2
    assert f"in use by another `stoker serve` (pid {tree.process.pid})" in told.stderr
    assert sorted(path.name for path in tree.paths.run.iterdir()) == before
    assert tree.client.status().ready


@pytest.mark.parametrize(("option", "section"), [("--port", "server"), ("--watchdog-port", "watchdog")])
def test_a_port_in_use_is_named_with_the_option_that_changes_it(tmp_path: Path, option: str, section: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused(tmp_path, SIMULATED, option, str(port))
    assert f"port {port} on 127.0.0.1 is in use" in sentence
    assert f"`{option}`" in sentence
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["serve.lock"]


def test_broken_toml_is_named_with_its_line(tmp_path: Path) -> None:
    sentence = refused(tmp_path, "[server\nport = 1")
    assert "stoker.toml is not valid TOML" in sentence
    assert "line 1" in sentence
    assert not (tmp_path / "run").exists()


def test_an_unknown_key_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    assert "unknown key `server.prot`; did you mean `server.port`?" in refused(tmp_path, "[server]\nprot = 1")


def test_a_bad_value_is_named_with_its_key(tmp_path: Path) -> None:
    assert "`server.port` = 70000" in refused(tmp_path, "[server]\nport = 70000")


def test_a_missing_model_folder_is_named(tmp_path: Path) -> None:
    sentence = refused(tmp_path, "[server]\nport = 0\n[watchdog]\nport = 0", "--model", f"{tmp_path}/nothing")
    assert f"no model folder {tmp_path}/nothing" in sentence


def test_an_incomplete_model_folder_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama"}')
    sentence = refused(tmp_path, "[server]\nport = 0\n[watchdog]\nport = 0", "--model", str(model))
    assert f"{model} has no weights" in sentence


def test_an_unsupported_architecture_is_named(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "perceptron"}')
    sentence = refused(tmp_path, "[server]\nport = 0\n[watchdog]\nport = 0", "--model", str(model))
    assert "`perceptron`" in sentence


def test_a_model_that_no_restart_can_help_ends_the_tree_with_the_childs_own_words(
    tmp_path: Path, tiny_model: Path
) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "model")
    (model / "tokenizer.json").write_text("{}")
    (tmp_path / "stoker.toml").write_text("[server]\nport = 0\n[watchdog]\nport = 0", encoding="utf-8")
    told = stoker(tmp_path, "serve", "--model", str(model))
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.splitlines()[-1].startswith(f"stoker: service cannot run: cannot load the tokenizer in {model}")
    assert not {"serve.json", "default.sock"} & {path.name for path in (tmp_path / "run").iterdir()}


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = stoker(tmp_path / "file" / "home", "serve")
    assert told.returncode == 2
    assert f"cannot use {tmp_path}/file/home/run" in told.stderr
