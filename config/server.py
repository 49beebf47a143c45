"""Settings of the HTTP API."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import field_validator, model_validator
from pydantic_core import PydanticCustomError

from .section import Count, Port, Seconds, Section


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Canonical(Section):
    """Lines of system prompts that change from request to request, and would make the prefix cache miss each time."""

    drop_billing_header: bool = True
    """Leave out lines that begin with `x-anthropic-billing-header:`; they say nothing to a model."""
    move_dates: bool = False
    """Move lines such as `Today's date: 2026-01-31` to the end of the system prompt, so that a new day costs less."""


class Server(Section):
    """The HTTP API that clients talk to."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback needs `api_keys` or `allow_anyone`."""
    port: Port = 8000
    """Port of the API; 0 lets the system choose."""
    max_body_bytes: Count = 32 * 1024 * 1024
    """Largest request body; a larger one gets 413."""
    default_max_tokens: Count = 4096
    """Output bound of a request that names none (the context window bounds it too)."""
    max_queue: Count = 128
    """Requests in flight at once, running ones included; one more gets 429, or takes the place of the newest request
    of a client that holds more than its share of those that wait."""
    max_queue_tokens: Count = 1_000_000
    """Prompt tokens of the requests that wait for a place in the engine; one more prompt gets 429, as above."""
    queue_deadline_s: Seconds = 300.0
    """How long a request may wait until the engine begins with it, before it fails with 503."""
    drain_deadline_s: Seconds = 30.0
    """How long running streams may go on after SIGTERM before they are cut."""
    keepalive_s: Seconds = 10.0
    """A stream that has nothing to say for this long gets an SSE comment."""
    resume_deadline_s: Seconds = 600.0
    """How long a request may wait for a new engine after its engine died, before it fails with 503."""
    quarantine_s: Seconds = 600.0
    """How long a request that killed the engine again and again is refused when it is sent anew."""
    shed_long_prompt_tokens: Count = 8192
    """While load is shed, a prompt longer than this is refused (from shed level 1)."""
    max_buffered_events: Count = 4096
    """Tokens that a stream holds for a slow reader; then the request leaves the engine until they are read."""
    slow_reader_deadline_s: Seconds = 300.0
    """How long a stream that is full may go without being read before it is cut."""
    api_keys: Path | None = None
    """File of the keys that clients must show, as docs/operating.md describes it; absent, anybody who can connect may
    ask. An absolute path, or one that begins with `~`."""
    allow_anyone: bool = False
    """Listen on an address that other machines reach although there are no `api_keys`; for networks that keep
    strangers out themselves, such as a container's."""
    cors_origins: tuple[str, ...] = ()
    """Origins such as `https://chat.example.org` whose pages may use the API from a browser."""
    canonical: Canonical = Canonical()
    """Changing lines of system prompts."""

    @field_validator("api_keys")
    @classmethod
    def _found_from_anywhere(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        path = path.expanduser()
        if not path.is_absolute():
            raise PydanticCustomError("relative_path", "Input should be an absolute path, or begin with `~`")
        return path

    @model_validator(mode="after")
    def _no_open_door(self) -> Server:
        if self.api_keys is None and not self.allow_anyone and not is_loopback(self.host):
            raise PydanticCustomError(
                "open_door",
                "`host` = {host} lets other machines in, and no `api_keys` say who may come; "
                "name a file of keys, set `allow_anyone`, or listen on 127.0.0.1",
                {"host": self.host},
            )
        return self
