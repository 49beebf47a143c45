"""`stoker models`: convert, remove and list, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.running import RunningTree, stoker
from tests.tiny_models import make_tiny_llama


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_tiny_llama(tmp_path / "models" / "org--tiny", hidden=128)


def test_a_model_is_converted_listed_and_removed(tmp_path: Path, tiny: Path) -> None:
    told = stoker(tmp_path, "models", "convert", "org/tiny", "--bits", "4")
    made = tmp_path / "models" / "org--tiny-4bit"
    assert (told.returncode, told.stderr.split(" (")[0]) == (0, "converting org--tiny to 4bit")
    assert told.stdout == f"org/tiny as 4bit is at {made}; serve it with `stoker serve --model org/tiny-4bit`\n"
    listed = stoker(tmp_path, "models", "list").stdout
    assert all(text in listed for text in ("org/tiny-4bit", "4-bit", str(made), str(tiny)))
    told = stoker(tmp_path, "models", "remove", "org/tiny-4bit", "--yes")
    assert (told.returncode, told.stdout) == (0, "removed org/tiny-4bit\n")
    assert [model["name"] for model in json.loads(stoker(tmp_path, "models", "list", "--json").stdout)] == ["org/tiny"]


def test_a_conversion_has_a_json_form(tmp_path: Path, tiny: Path) -> None:
    told = stoker(tmp_path, "models", "convert", str(tiny), "--dtype", "bfloat16", "--name", "small", "--json")
    model = json.loads(told.stdout)
    assert (model["name"], model["path"], model["quantization"]) == ("small", str(tmp_path / "models" / "small"), None)


@pytest.mark.parametrize(
    "arguments",
    [(), ("--bits", "3"), ("--bits", "4", "--group-size", "7"), ("--dtype", "int8"), ("--bits", "4", "--name", "a b")],
)
def test_a_conversion_that_makes_no_sense_is_misuse(tmp_path: Path, tiny: Path, arguments: tuple[str, ...]) -> None:
    told = stoker(tmp_path, "models", "convert", str(tiny), *arguments)
    assert (told.returncode, told.stdout) == (2, "")
    assert "Traceback" not in told.stderr


def test_nothing_is_removed_without_a_yes(tmp_path: Path, tiny: Path) -> None:
    told = stoker(tmp_path, "models", "remove", "org/tiny")
    assert told.returncode == 1
    assert f"Remove {tiny}?" in told.stdout
    assert tiny.is_dir()


def test_what_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    told = stoker(tmp_path, "models", "remove", "absent", "--yes")
    assert (told.returncode, told.stdout) == (2, "")
    assert "`stoker models list` shows those there are" in told.stderr


def test_a_model_that_is_being_served_is_not_removed(tmp_path: Path, tiny: Path) -> None:
    tree = RunningTree(tmp_path, '[engine]\nmodel = "org/tiny"\n[server]\nport = 0\n[watchdog]\nport = 0')
    try:
        tree.start()
        told = stoker(tmp_path, "models", "remove", "org/tiny", "--yes")
        assert told.returncode == 1
        assert told.stderr == "stoker: org/tiny is being served; stop `stoker serve` first, or serve another model\n"
        assert tiny.is_dir()
    finally:
        tree.stop()
    assert stoker(tmp_path, "models", "remove", "org/tiny", "--yes").returncode == 0
