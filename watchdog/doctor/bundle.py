"""What to hand to somebody who is to help: findings, status, configuration, versions and the end of the logs.

No prompt, no answer and no key is in it: logs never hold text of clients, and what is secret in the configuration is
left out here.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import platform
import re
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import msgspec

from ...config import Paths
from ..errors import HomeUnusable
from ..home import replace_private
from .findings import Finding
from .server import ServerReading

LOG_TAIL_BYTES = 512 * 1024
PACKAGES = ("stoker", "mlx", "mlx-lm", "transformers", "aiohttp", "numpy", "llguidance")
SECRET = re.compile(r"token|secret|password|headers|key|^values$", re.IGNORECASE)
_CREDENTIALS = re.compile(rb"(?i)(bearer\s+|sk-)[\w.~+/=-]{8,}")
_URL_PATHS = re.compile(r"(https?://[^/\s]+/)\S+")
"""Chat rooms are posted to by whoever knows their address."""
_URL_PASSWORDS = re.compile(r"(://[^:/@\s]+:)[^@/\s]+@")


def write_bundle(file: Path, findings: list[Finding], server: ServerReading, paths: Paths) -> list[str]:
    """A gzipped tar at `file`, for this user alone; returns what is in it. Raises `HomeUnusable`."""
    parts = {
        "findings.json": msgspec.json.format(msgspec.json.encode(findings)),
        "system.json": _json(_system()),
        **_tails(paths.logs),
    }
    if server.config is not None:
        parts["configuration.json"] = _json(without_secrets(server.config.model_dump(mode="json")))
    if server.status is not None:
        parts["status.json"] = msgspec.json.format(msgspec.json.encode(server.status))
    packed = _packed({name: _CREDENTIALS.sub(rb"\1***", content) for name, content in parts.items()})
    try:
        replace_private(file.absolute(), packed)
    except OSError as error:
        raise HomeUnusable(f"cannot write {file}: {error.strerror}; name another file") from error
    return sorted(parts)


def without_secrets(value: Any) -> Any:
    """The same settings with `***` for every value whose key sounds secret, and for passwords in addresses."""
    if isinstance(value, dict):
        return {key: "***" if _is_secret(key, each) else without_secrets(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if not isinstance(value, str):
        return value
    return _URL_PATHS.sub(r"\1***", _URL_PASSWORDS.sub(r"\1***@", value))


def _is_secret(key: str, value: Any) -> bool:
    """Counts such as `max_tokens` are none."""
    return SECRET.search(key) is not None and value not in (None, {}, []) and not isinstance(value, int | float)


def _system() -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {"platform": platform.platform(), "machine": platform.machine(), "python": sys.version, **versions}


def _tails(logs: Path) -> dict[str, bytes]:
    """The end of every log file, from a whole line on."""
    tails = {}
    for file in sorted(logs.glob("*.log*")) if logs.is_dir() else ():
        try:
            with file.open("rb") as stream:
                stream.seek(max(0, file.stat().st_size - LOG_TAIL_BYTES))
                tails[f"logs/{file.name}"] = stream.read()
        except OSError:
            continue
    return tails


def _packed(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(f"stoker-bundle/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()
