"""Find the running endpoint, ask it a word as an agent would, and write an agent's settings."""

from __future__ import annotations

import time
from pathlib import Path

from .agents import Api, Endpoint, Settings
from .endpoint import EndpointClient
from .errors import NotAnEndpoint, SettingsNotWritten
from .home import replace_private

_PATHS = {Api.OPENAI: "/v1/chat/completions", Api.ANTHROPIC: "/v1/messages"}


def found(url: str, key: str | None) -> Endpoint:
    """The endpoint at `url` and the model that it serves. Raises as `EndpointClient` does."""
    client = EndpointClient(url, key)
    try:
        return Endpoint(client.url, client.get("/v1/models")["data"][0]["id"], key)
    except (KeyError, IndexError, TypeError) as error:
        raise NotAnEndpoint(f"{client.url} lists no model at /v1/models; is it an OpenAI-compatible server?") from error


def answers(endpoint: Endpoint, api: Api) -> float:
    """Have one token written over an agent's own API; returns the seconds it took. Raises as `found` does."""
    body = {"model": endpoint.model, "max_tokens": 1, "messages": [{"role": "user", "content": "Say yes."}]}
    began = time.monotonic()
    EndpointClient(endpoint.url, endpoint.key).post(_PATHS[api], body)
    return time.monotonic() - began


def write(settings: Settings) -> Path:
    """Put the settings where the agent reads them; the file keeps what else it says. Raises `SettingsNotWritten`."""
    path, merged = settings.file, settings.merged
    if path is None or merged is None:
        raise SettingsNotWritten("these are environment variables: put the lines into your shell's profile")
    try:
        new = merged(path.read_text(encoding="utf-8") if path.exists() else None)
        path.parent.mkdir(parents=True, exist_ok=True)
        # It may hold a key.
        replace_private(path, new.encode())
    except ValueError as error:
        raise SettingsNotWritten(f"{path} was left as it is ({error}): add the lines above by hand") from error
    except OSError as error:
        raise SettingsNotWritten(f"cannot write {path}: {error.strerror}; add the lines above by hand") from error
    return path
