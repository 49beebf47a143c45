"""From settings to a TOML file that says what each is for."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from .everything import Config
from .section import Section


def example() -> str:
    """A configuration file with every key, its default and what it is for; `stoker.example.toml` is this text."""
    head = "Every setting with its default. Copy this to $STOKER_HOME/stoker.toml and keep only what you change."
    return "\n".join([*_comment(head), *_example_lines(Config(), "")]) + "\n"


def _example_lines(section: Section, table: str) -> Iterator[str]:
    """A table's own keys stand before its subtables, as TOML wants it."""
    subtables: list[tuple[str, Section]] = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            subtables.append((f"{table}{name}", value))
            continue
        yield from _comment(field.description or "")
        # TOML has no null: a key without a default is shown by its name alone.
        yield f"# {name} = (not set)" if value is None else f"{name} = {json.dumps(value, default=str)}"
    for name, subsection in subtables:
        yield ""
        yield from _comment(type(subsection).__doc__ or "")
        yield f"[{name}]"
        yield from _example_lines(subsection, f"{name}.")


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width=118, initial_indent="# ", subsequent_indent="# ")
