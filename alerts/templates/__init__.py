"""Bodies for receivers that do not know Alertmanager's: JSON files in which `$name` stands for what is told.

A template is plain JSON: its strings are filled in, everything else stays. docs/alerts.md lists the names. Besides them
a target's own `values` can be used.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import msgspec

from ..edge import Edge, Status
from ..errors import TemplateUnusable
from ..message import Origin, annotations_of, body, fingerprint, labels_of, timestamp
from ..severity import Severity

ALERTMANAGER = "alertmanager"
FOLDER = Path(__file__).parent
_PRIORITY = {Severity.CRITICAL: "5", Severity.WARNING: "4", Severity.INFO: "2"}
_COLOR = {Severity.CRITICAL: "15158332", Severity.WARNING: "15105570", Severity.INFO: "3447003"}
_GREEN = "3066993"
_NUMBERS = ("priority", "color")
"""Names that stand for a number where a string has nothing else in it."""

Template = dict[str, Any]


def load(name: str) -> Template | None:
    """By name or path; None for Alertmanager's own body. Raises `TemplateUnusable`."""
    if name == ALERTMANAGER:
        return None
    file = Path(name).expanduser() if "/" in name else FOLDER / f"{name}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Template)
    except FileNotFoundError as error:
        known = ", ".join([ALERTMANAGER, *sorted(each.stem for each in FOLDER.glob("*.json"))])
        raise TemplateUnusable(f"there is no template `{name}`; give a path, or one of {known}") from error
    except (OSError, msgspec.MsgspecError) as error:
        raise TemplateUnusable(f"the template {file} cannot be used: {error}") from error


def render(template: Template | None, edge: Edge, origin: Origin, values: dict[str, str]) -> bytes:
    """The body of one message. Raises `TemplateUnusable` when a name in it stands for nothing."""
    if template is None:
        return msgspec.json.encode(body(edge, origin))
    return msgspec.json.encode(_filled(template, {**values, **names(edge, origin)}))


def names(edge: Edge, origin: Origin) -> dict[str, str]:
    """What `$name` can be, the same for every template."""
    labels, annotations = labels_of(edge, origin), annotations_of(edge, origin)
    over = edge.status is Status.RESOLVED
    word = "TEST " if edge.test else ""
    return {
        "title": f"{word}{edge.status.value.upper()}: {labels['alertname']}",
        "status": edge.status.value,
        "alertname": labels["alertname"],
        "kind": edge.kind,
        "severity": edge.severity.value,
        "summary": edge.summary,
        "instance": origin.instance,
        "incident": edge.incident,
        "fingerprint": fingerprint(labels),
        "started_at": timestamp(edge.opened_at),
        "at": timestamp(edge.at),
        "runbook_url": annotations["runbook_url"],
        "event_action": "resolve" if over else "trigger",
        "priority": "3" if over else _PRIORITY[edge.severity],
        "color": _GREEN if over else _COLOR[edge.severity],
        "tag": "white_check_mark" if over else "rotating_light",
    }


def _filled(part: Any, known: dict[str, str]) -> Any:
    match part:
        case dict():
            return {key: _filled(value, known) for key, value in part.items()}
        case list():
            return [_filled(each, known) for each in part]
        case str() if part.removeprefix("$") in _NUMBERS and part.startswith("$"):
            return int(known[part[1:]])
        case str():
            try:
                return string.Template(part).substitute(known)
            except (KeyError, ValueError) as error:
                raise TemplateUnusable(
                    f"nothing stands for {error} in the template's `{part}`; give it in the target's `values`"
                ) from error
    return part
