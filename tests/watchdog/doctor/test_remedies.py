"""What a remedy tells people to run or to set exists."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from stoker import config
from stoker.engine import blas
from stoker.watchdog import doctor
from tests.commands_named import check_command

FOLDER = Path(doctor.__file__).parent
MODULES = sorted([*FOLDER.glob("*.py"), Path(blas.__file__)])
KEY = re.compile(r"\[?(?:server|engine|watchdog|telemetry)\.[a-z0-9_.]+\]?")


def quoted_in(module: Path) -> set[str]:
    """Everything between backticks in the strings of a module; what is computed is a word."""
    strings: list[str] = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "WORD" for part in node.values)
            strings.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node.value)
    return {quoted for text in strings for quoted in re.findall(r"`([^`]+)`", text)}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_its_commands_and_settings_exist(module: Path) -> None:
    for quoted in quoted_in(module):
        if quoted.startswith("stoker "):
            check_command(shlex.split(quoted))
        elif KEY.fullmatch(quoted):
            assert quoted.strip("[]") in config.known_keys(), quoted


def test_remedies_do_name_commands_and_settings() -> None:
    quoted = set().union(*map(quoted_in, MODULES))
    assert {"stoker serve", "stoker engine restart", "engine.prefix_cache_ram_bytes", "[server.canonical]"} <= quoted
