"""The settings that a child process gets: the watchdog writes them as JSON, `process` reads them."""

from __future__ import annotations

from pathlib import Path

from .engine import Engine
from .section import Section
from .server import Server
from .soak import Soak
from .telemetry import Telemetry


class EngineProcess(Section):
    """What one engine process is told at its start."""

    name: str
    model_name: str
    model_path: Path | None
    draft_model_path: Path | None = None
    socket: Path
    kv_path: Path
    """Folder of the prefix cache's disk tier; this engine's alone."""
    epoch: int
    engine: Engine


class EngineEndpoint(Section):
    """Where the service finds an engine, and the model whose text it speaks (None: the simulated engine's)."""

    name: str
    model_name: str
    model_path: Path | None
    socket: Path
    context_tokens: int | None


class SoakProcess(Section):
    """What a soak run on the tree is told; the watchdog writes it at its start."""

    journal_url: str
    needs_key: bool
    """The API is for those who show a key."""
    telemetry: Telemetry
    soak: Soak


class ServiceProcess(Section):
    """What the service process is told at its start."""

    server: Server
    telemetry: Telemetry
    listen_fd: int
    """An inherited listening socket; the watchdog holds it too, so that clients queue while the service restarts."""
    engine: EngineEndpoint
    admin_token_sha256: str | None = None
    """Hash, in hexadecimal, of the token that the watchdog shows at `/internal/`; without one nobody gets in there."""
    watchdog_url: str | None = None
    """Where the watchdog answers, for the status page; without it the page shows what the service knows alone."""
