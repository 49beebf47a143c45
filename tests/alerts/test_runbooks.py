"""Every alert has a runbook, and what one names exists: commands, options, settings, metrics, other pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from stoker.alerts.rules import alerts
from stoker.alerts.runbooks import FOLDER, page, runbook_url
from stoker.alerts.severity import MEANINGS, UNKNOWN
from stoker.config import Alerts, WebhookTarget, known_keys
from tests.commands_named import check_command
from tests.dashboards.test_boards import declared

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(FOLDER.glob("*.md"))
NAMES = {file.stem for file in PAGES}
TOOLS = {"tail", "curl"}
HEADINGS = ["What Stoker already did", "Look", "What to do, layer by layer", "It is over when"]
LAYERS = ("API", "Server", "Engine", "Runtime", "Backend", "Hardware")


def commands_in(text: str) -> list[list[str]]:
    """Each line of each block of code, and each `stoker …` in a sentence."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    inline = re.findall(r"`(stoker [a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [shlex.split(line) for line in [*blocks.splitlines(), *inline] if line.strip()]


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    wanted = {alert.name for alert in alerts()} | {each.alert for each in (*MEANINGS.values(), UNKNOWN)}
    assert wanted == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_page_has_its_parts_and_three_commands_to_look(name: str) -> None:
    text = page(name)
    assert text is not None and text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(block.splitlines()) == 3
    layers = re.findall(r"^- \*\*(\w+)\*\*:", text, re.MULTILINE)
    assert layers and layers == [layer for layer in LAYERS if layer in layers]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_command_of_a_page_exists(name: str) -> None:
    for words in commands_in((FOLDER / f"{name}.md").read_text(encoding="utf-8")):
        if words[0] == "stoker":
            check_command(words)
        else:
            assert words[0] in TOOLS, words


@pytest.mark.parametrize("name", sorted(NAMES))
def test_everything_that_a_page_names_exists(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    keys = {*known_keys(), *(f"alerts.{key}" for key in Alerts.model_fields), *WebhookTarget.model_fields}
    for quoted in re.findall(r"`([^`\s]+)`", text):
        if re.fullmatch(r"(server|engine|watchdog|telemetry|alerts)\.[a-z0-9_.]+", quoted):
            assert quoted in keys, quoted
        if metric := re.match(r"stoker_[a-z_]+", quoted):
            assert metric[0] in declared(), quoted
        if re.fullmatch(r"(docs|alerts)/[\w./-]+", quoted):
            assert (ROOT / quoted).exists(), quoted
    for other in re.findall(r"\bStoker[A-Z]\w+", text):
        assert other in NAMES, other
    for named in re.findall(r"\((docs/[\w.-]+)\)", text):
        assert (ROOT / named).exists(), named


def test_an_address_leads_to_its_page_and_nowhere_else() -> None:
    assert runbook_url("StokerLeak") == "http://127.0.0.1:8001/runbooks/StokerLeak"
    assert page("../severity") is None and page("__init__") is None
