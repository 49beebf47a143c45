"""From settings to a page of Markdown that explains every key; `docs/configuration.md` is this text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .everything import Config
from .section import Section

_HEAD = """# Configuration

One file, `$STOKER_HOME/stoker.toml` (`~/.stoker` unless set), or what `--config` names; without one the defaults hold.
A key that is unknown or has a value out of bounds is refused at the start, by its name. `stoker config check` says
whether a file can be used, `stoker config show` what is in effect. This page is made from the settings themselves, and
a test keeps it so."""
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_NAMES: dict[str, str] = {"string": "text", "path": "path", "boolean": "`true`, `false`", "object": "table"}


def reference() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_parts(Config(), "")]) + "\n"


def _parts(section: Section, table: str) -> Iterator[str]:
    """A table's own keys, then its subtables."""
    schema = type(section).model_json_schema()
    values = {name: getattr(section, name) for name in type(section).model_fields}
    subtables = {name: value for name, value in values.items() if isinstance(value, Section)}
    keys = [name for name in values if name not in subtables]
    if keys:
        yield from ("", "| key | values | default | meaning |", "|---|---|---|---|")
        yield from (_row(name, values[name], schema["properties"][name]) for name in keys)
    for name, subsection in subtables.items():
        yield from ("", f"## `[{table}{name}]`", "", _one_line(type(subsection).__doc__))
        yield from _parts(subsection, f"{table}{name}.")


def _row(name: str, value: Any, schema: dict[str, Any]) -> str:
    default = "not set" if value is None else f"`{json.dumps(value, default=str)}`"
    return f"| `{name}` | {_values(schema)} | {default} | {_one_line(schema.get('description'))} |"


def _values(schema: dict[str, Any]) -> str:
    """What a JSON schema allows, in a few words."""
    if "anyOf" in schema:
        return " or ".join(_values(each) for each in schema["anyOf"] if each.get("type") != "null")
    if choices := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{each}`" for each in choices)
    if "prefixItems" in schema:
        return ", ".join(_values(each) for each in schema["prefixItems"])
    if "items" in schema:
        return f"list: {_values(schema['items'])}"
    bounds = (f" {sign} {schema[name]:g}" for name, sign in _BOUNDS.items() if name in schema)
    kind: str = schema.get("format") or schema.get("type", "object")
    return _NAMES.get(kind, kind) + "".join(bounds)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
