"""Find the running endpoint, ask it a word as an agent would, and write an agent's settings."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

import msgspec

from .agents import Api, Endpoint, Settings
from .errors import EndpointRefuses, SettingsNotWritten

ANSWER_DEADLINE_S = 300.0
_PATHS = {Api.OPENAI: "/v1/chat/completions", Api.ANTHROPIC: "/v1/messages"}


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


def found(url: str, key: str | None) -> Endpoint:
    """The endpoint at `url` and the model that it serves. Raises `EndpointRefuses`."""
    models = msgspec.json.decode(_ask(url, "/v1/models", key, None), type=_Models).data
    return Endpoint(url, models[0].id, key)


def answers(endpoint: Endpoint, api: Api) -> float:
    """Have one token written over an agent's own API; returns the seconds it took. Raises `EndpointRefuses`."""
    body = {"model": endpoint.model, "max_tokens": 1, "messages": [{"role": "user", "content": "Say yes."}]}
    began = time.monotonic()
    _ask(endpoint.url, _PATHS[api], endpoint.key, msgspec.json.encode(body))
    return time.monotonic() - began


def write(settings: Settings) -> Path:
    """Put the settings where the agent reads them; the file keeps what else it says. Raises `SettingsNotWritten`."""
    path, merged = settings.file, settings.merged
    if path is None or merged is None:
        raise SettingsNotWritten("these are environment variables: put the lines into your shell's profile")
    try:
        new = merged(path.read_text(encoding="utf-8") if path.exists() else None)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        # It may hold a key.
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(new)
        draft.replace(path)
    except ValueError as error:
        raise SettingsNotWritten(f"{path} was left as it is ({error}): add the lines above by hand") from error
    except OSError as error:
        raise SettingsNotWritten(f"cannot write {path}: {error.strerror}; add the lines above by hand") from error
    return path


def _ask(url: str, path: str, key: str | None, body: bytes | None) -> bytes:
    request = urllib.request.Request(url + path, data=body, headers={"Content-Type": "application/json"})
    if key is not None:
        request.add_header("Authorization", f"Bearer {key}")
    # A proxy of the user's must not be asked for this machine.
    http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with http.open(request, timeout=ANSWER_DEADLINE_S) as response:
            answer: bytes = response.read()
            return answer
    except urllib.error.HTTPError as error:
        with error:
            raise EndpointRefuses(_refusal(url, error.code, error.read())) from error
    except (OSError, HTTPException) as error:
        raise EndpointRefuses(f"nothing answers at {url} ({error}); is `stoker serve` running there?") from error


def _refusal(url: str, code: int, body: bytes) -> str:
    if code == 401:
        return f"{url} wants a key: give one with --key or in $STOKER_API_KEY"
    return f"{url} answered {code}: {body[:200].decode(errors='replace')}"
