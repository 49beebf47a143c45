"""Whether a `stoker` command that a page, a runbook or a remedy names exists, with all its options."""

from __future__ import annotations

from typing import Any

import typer.main

from stoker.cli import app


def check_command(words: list[str]) -> None:
    """`words` begin with `stoker`. Raises `AssertionError` with them."""
    # Typer's own kind of commands, which it gives no public name.
    command: Any = typer.main.get_command(app)
    rest = words[1:]
    while rest and (commands := getattr(command, "commands", None)):
        assert rest[0] in commands, words
        command, rest = commands[rest[0]], rest[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    assert not [word for word in rest if word.startswith("--") and word not in options], words
    takes = [each for each in command.params if each.param_type_name == "argument"]
    assert takes or not rest or rest[0].startswith("--"), words
