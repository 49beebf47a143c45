"""How each coding agent and SDK is told where the endpoint is (pure).

Sources: the environment variables of Claude Code (code.claude.com/docs/en/env-vars), aider's options
(aider.chat/docs/config/options.html), Continue's config.yaml (docs.continue.dev/reference), and the two SDKs' clients.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

PATIENCE_MS = 3_600_000
"""A long prompt on a slow machine takes minutes to its first token; agents give up after ten by default."""
NO_KEY = "stoker"
"""For clients that insist on a key where the endpoint wants none."""


class Api(StrEnum):
    """Which of the two APIs an agent speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True)
class Endpoint:
    """The API's address without a path, what it serves, and the key to show there, if it wants one."""

    url: str
    model: str
    key: str | None = None

    @property
    def shown_key(self) -> str:
        return self.key or NO_KEY


@dataclass(frozen=True)
class Settings:
    """What to put where. `merged` makes the file's new text out of its old one, None when it does not exist yet.

    It raises `ValueError` when the old text has settings of its own that it cannot keep.
    """

    api: Api
    text: str
    """For people to copy."""
    file: Path | None = None
    merged: Callable[[str | None], str] | None = None


def claude_code(endpoint: Endpoint, home: Path) -> Settings:
    """Every model name that it may ask for is the one that is served here."""
    roles = ("MODEL", "DEFAULT_OPUS_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL")
    env = {
        "ANTHROPIC_BASE_URL": endpoint.url,
        "ANTHROPIC_AUTH_TOKEN": endpoint.shown_key,
        **{f"ANTHROPIC_{role}": endpoint.model for role in roles},
        "API_TIMEOUT_MS": str(PATIENCE_MS),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Settings(Api.ANTHROPIC, _exports(env), home / ".claude" / "settings.json", lambda old: _with_env(old, env))


def aider(endpoint: Endpoint, home: Path) -> Settings:
    """`openai/` before the model's name says which API to speak."""
    text = _yaml_lines(
        {
            "model": f"openai/{endpoint.model}",
            "openai-api-base": f"{endpoint.url}/v1",
            "openai-api-key": endpoint.shown_key,
            "timeout": PATIENCE_MS // 1000,
        }
    )
    return Settings(Api.OPENAI, text, home / ".aider.conf.yml", lambda old: _only_new(old, text))


def continue_dev(endpoint: Endpoint, home: Path) -> Settings:
    """Continue, the extension of editors."""
    model = {
        "name": f"{endpoint.model} on Stoker",
        "provider": "openai",
        "model": endpoint.model,
        "apiBase": f"{endpoint.url}/v1",
        "apiKey": endpoint.shown_key,
    }
    first, *rest = _yaml_lines(model).splitlines()
    entry = "\n".join([f"  - {first}", *(f"    {line}" for line in rest)])
    roles = "    roles: [chat, edit, apply]\n"
    text = f"name: Stoker\nversion: 0.0.1\nschema: v1\nmodels:\n{entry}\n{roles}"
    return Settings(Api.OPENAI, text, home / ".continue" / "config.yaml", lambda old: _only_new(old, text))


def openai_sdk(endpoint: Endpoint, _home: Path) -> Settings:
    """The variables that the OpenAI SDKs read."""
    return Settings(
        Api.OPENAI, _exports({"OPENAI_BASE_URL": f"{endpoint.url}/v1", "OPENAI_API_KEY": endpoint.shown_key})
    )


def anthropic_sdk(endpoint: Endpoint, _home: Path) -> Settings:
    """The variables that the Anthropic SDKs read."""
    return Settings(
        Api.ANTHROPIC, _exports({"ANTHROPIC_BASE_URL": endpoint.url, "ANTHROPIC_API_KEY": endpoint.shown_key})
    )


AGENTS: Mapping[str, Callable[[Endpoint, Path], Settings]] = {
    "claude-code": claude_code,
    "aider": aider,
    "continue": continue_dev,
    "openai": openai_sdk,
    "anthropic": anthropic_sdk,
}


def _exports(values: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def _yaml_lines(values: Mapping[str, str | int]) -> str:
    """JSON's strings and numbers are YAML's."""
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _with_env(old: str | None, env: Mapping[str, str]) -> str:
    """Claude Code's settings with these variables, and everything else as it was."""
    settings = json.loads(old) if old and old.strip() else {}
    if not isinstance(settings, dict) or not isinstance(settings.get("env", {}), dict):
        raise ValueError("it is not an object with an `env` object")
    settings["env"] = {**settings.get("env", {}), **env}
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _only_new(old: str | None, text: str) -> str:
    """A file whose comments and order are somebody's work is not rewritten."""
    if old is not None and old.strip() and old != text:
        raise ValueError("it has settings already")
    return text
