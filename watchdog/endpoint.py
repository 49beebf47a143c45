"""Any OpenAI- or Anthropic-compatible endpoint as a client sees it, over the standard library's HTTP."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

import msgspec

from .errors import EndpointRefuses, EndpointSilent, NotAnEndpoint

ANSWER_DEADLINE_S = 300.0
"""A first answer may have to wait for a long prompt of somebody else's."""
LIST_DEADLINE_S = 10.0
"""What needs no engine has nothing to wait for; a program that takes connections and says nothing is soon known."""
DONE = "[DONE]"


@dataclass(frozen=True)
class Streamed:
    """What came of a streamed answer: each event's data as text, and the seconds to the first and to the last."""

    events: tuple[str, ...]
    first_s: float
    total_s: float


class EndpointClient:
    """One endpoint, by its address without a path.

    Every call raises `EndpointSilent` or `EndpointRefuses`, and where it wants JSON `NotAnEndpoint`.
    """

    def __init__(self, url: str, key: str | None, deadline_s: float = ANSWER_DEADLINE_S) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._key = key
        self._deadline_s = deadline_s
        # A proxy of the user's must not be asked for this machine.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> Any:
        """The JSON at `path`."""
        return self._decoded(self._open(path, None, min(self._deadline_s, LIST_DEADLINE_S)))

    def text(self, path: str) -> str:
        """What is at `path`, as text."""
        return self._read(self._open(path, None, min(self._deadline_s, LIST_DEADLINE_S))).decode(errors="replace")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that answers `body`."""
        return self._decoded(self._open(path, msgspec.json.encode(body), self._deadline_s))

    def stream(self, path: str, body: dict[str, Any]) -> Streamed:
        """Read a whole stream of server-sent events."""
        began = time.monotonic()
        events: list[str] = []
        first_s = 0.0
        with self._open(path, msgspec.json.encode(body), self._deadline_s) as response:
            try:
                for line in response:
                    if line.startswith(b"data:"):
                        first_s = first_s or time.monotonic() - began
                        events.append(line[5:].strip().decode(errors="replace"))
            except (OSError, HTTPException) as error:
                raise EndpointSilent(f"the stream from {self.url} broke off ({error})") from error
        return Streamed(tuple(events), first_s, time.monotonic() - began)

    def _open(self, path: str, body: bytes | None, deadline_s: float) -> Any:
        request = urllib.request.Request(self.url + path, data=body, headers={"Content-Type": "application/json"})
        if self._key is not None:
            request.add_header("Authorization", f"Bearer {self._key}")
        try:
            return self._http.open(request, timeout=deadline_s)
        except urllib.error.HTTPError as error:
            with error:
                raise EndpointRefuses(self.url + path, error.code, error.read()) from error
        except (OSError, HTTPException, ValueError) as error:
            raise EndpointSilent(
                f"nothing answers at {self.url} ({error}); is `stoker serve` running there?"
            ) from error

    def _read(self, response: Any) -> bytes:
        with response:
            try:
                body: bytes = response.read()
            except (OSError, HTTPException) as error:
                raise EndpointSilent(f"the answer from {self.url} broke off ({error})") from error
            return body

    def _decoded(self, response: Any) -> Any:
        body = self._read(response)
        try:
            return msgspec.json.decode(body)
        except msgspec.MsgspecError as error:
            raise NotAnEndpoint(f"{self.url} does not answer with JSON; is it another program's port?") from error
