"""`stacks.toml`: which servers are compared, on what, and for how long; read once, and refused with a reason."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, ValidationError

from ...config import Count, Seconds, Section
from ..errors import StacksUnusable
from .entries import ENTRIES, Entry


class Stack(Section):
    """One server. What is given here replaces what the ready entry says."""

    name: str
    """The column's title, and a ready entry's name if there is one."""
    entry: str | None = None
    """The ready entry, if the name is another."""
    program: str | None = None
    """Where the command's first word is, for servers that are not on the path or in an environment of their own."""
    command: tuple[str, ...] | None = None
    """The whole command line; see the ready entries for what may stand in it."""
    arguments: tuple[str, ...] = ()
    """More of them, at its end."""
    model: str | None = None
    """Another model than the common one: a GGUF file, or a name that the server knows."""
    ready: str | None = None
    """The path that answers 200 once the model is loaded."""
    served_as: str | None = None
    """The model's name in requests; without one the first that the server lists."""
    environment: dict[str, str] = Field(default={})
    """More variables."""


class Stacks(Section):
    """The whole file."""

    model: str = "demo"
    """A model folder, or `demo`."""
    workload: str = "chat"
    """Its name, or a trace's JSONL file."""
    scale: float = Field(default=1.0, gt=0)
    """Of its lengths."""
    seed: int = 1
    """Of what is asked, and of the order."""
    streams: Count = 4
    """Conversations at once."""
    seconds: Seconds = 60.0
    """How long each server is measured each time."""
    repeats: Count = 3
    """How often each is started and measured, in a new order each time."""
    kill_seconds: float = Field(default=0.0, ge=0)
    """How long each is measured once more while the process that computes is killed after a third of it; 0: not."""
    ready_within: Seconds = 300.0
    """How long a server may take to load its model."""
    stack: tuple[Stack, ...] = Field(min_length=1)
    """The servers."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One server with everything that is needed to start it."""

    name: str
    entry: Entry
    model: str


def read(file: Path) -> Stacks:
    """Raises `StacksUnusable`."""
    try:
        return Stacks.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise StacksUnusable(f"cannot read {file}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise StacksUnusable(f"{file} is not valid TOML: {error}") from error
    except ValidationError as error:
        problems = (f"`{'.'.join(map(str, each['loc']))}`: {each['msg']}" for each in error.errors(include_url=False))
        raise StacksUnusable(f"{file}: {'; '.join(problems)}") from error


def contender(stack: Stack, model: str) -> Contender:
    """The ready entry with what the file replaces. Raises `StacksUnusable`."""
    name = stack.entry or stack.name
    if stack.command is None and name not in ENTRIES:
        raise StacksUnusable(
            f"`{name}` is no ready entry ({', '.join(ENTRIES)}); take one of them with `entry`, or give a `command`"
        )
    entry = ENTRIES.get(name, Entry(command=()))
    command = stack.command or entry.command
    if stack.program is not None:
        command = (stack.program, *command[1:])
    entry = replace(
        entry,
        command=(*command, *stack.arguments),
        ready=stack.ready or entry.ready,
        served_as=stack.served_as or entry.served_as,
        environment={**entry.environment, **stack.environment},
    )
    return Contender(stack.name, entry, stack.model or model)
