"""Each agent is told where the endpoint is in its own form, and a file that has other settings keeps them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from stoker.watchdog.agents import AGENTS, NO_KEY, Api, Endpoint
from stoker.watchdog.connect import write
from stoker.watchdog.errors import SettingsNotWritten

HERE = Endpoint("http://127.0.0.1:8000", 'odd "name": 8-bit')


def exported(text: str) -> dict[str, str]:
    """The variables that a shell would set."""
    words = [shlex.split(line) for line in text.splitlines()]
    assert all(word == "export" and len(rest) == 1 for word, *rest in words)
    return dict(rest[0].split("=", 1) for _, *rest in words)


def test_claude_code_asks_for_no_model_that_is_not_served(tmp_path: Path) -> None:
    env = exported(AGENTS["claude-code"](HERE, tmp_path).text)
    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8000"
    assert env["ANTHROPIC_AUTH_TOKEN"] == NO_KEY
    assert {value for name, value in env.items() if name.endswith("MODEL")} == {HERE.model}


@pytest.mark.parametrize(("agent", "api"), [("openai", Api.OPENAI), ("anthropic", Api.ANTHROPIC)])
def test_the_sdks_read_their_variables(agent: str, api: Api, tmp_path: Path) -> None:
    settings = AGENTS[agent](Endpoint(HERE.url, HERE.model, "sk-secret"), tmp_path)
    env = exported(settings.text)
    assert settings.api is api
    assert env[f"{api.value.upper()}_API_KEY"] == "sk-secret"
    with pytest.raises(SettingsNotWritten, match="shell's profile"):
        write(settings)


def test_claude_codes_file_keeps_everything_else(tmp_path: Path) -> None:
    settings = AGENTS["claude-code"](HERE, tmp_path)
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"permissions": {"allow": ["Bash"]}, "env": {"FOO": "1", "ANTHROPIC_MODEL": "old"}}))
    assert write(settings) == file
    written = json.loads(file.read_text())
    assert written["permissions"] == {"allow": ["Bash"]}
    assert written["env"]["FOO"] == "1"
    assert written["env"]["ANTHROPIC_MODEL"] == HERE.model
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["[]", "{broken", '{"env": 3}'])
def test_a_file_that_is_not_understood_is_left_as_it_is(content: str, tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(SettingsNotWritten, match="by hand"):
        write(AGENTS["claude-code"](HERE, tmp_path))
    assert file.read_text() == content


def test_aider_gets_a_new_file_but_no_file_of_its_user_is_rewritten(tmp_path: Path) -> None:
    settings = AGENTS["aider"](HERE, tmp_path)
    file = write(settings)
    assert yaml.safe_load(file.read_text())["model"] == f"openai/{HERE.model}"
    assert write(settings) == file
    file.write_text("model: mine  # with care\n")
    with pytest.raises(SettingsNotWritten, match="settings already"):
        write(settings)
    assert file.read_text() == "model: mine  # with care\n"


def test_continue_gets_one_model(tmp_path: Path) -> None:
    (model,) = yaml.safe_load(AGENTS["continue"](HERE, tmp_path).text)["models"]
    assert model["apiBase"] == "http://127.0.0.1:8000/v1"
    assert model["model"] == HERE.model
