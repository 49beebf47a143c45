"""Where things live under `$STOKER_HOME`."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

# A Unix socket's path is bounded: 108 bytes on Linux, 104 on macOS, the final NUL included.
MAX_SOCKET_PATH_BYTES = 103


class Paths:
    """Where things live under `$STOKER_HOME`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / "stoker.toml"
        self.models = home / "models"
        self.run = home / "run"
        self.logs = home / "logs"
        self.reports = home / "reports"
        self.lock = self.run / "serve.lock"
        self.quiet = home / "quiet.json"
        self.admin_token = home / "admin.token"
        self.journal_url = f"sqlite+aiosqlite:///{home / 'stoker.db'}"

    @classmethod
    def from_environment(cls) -> Paths:
        """`$STOKER_HOME`, or `~/.stoker`."""
        return cls(Path(os.environ.get("STOKER_HOME") or Path.home() / ".stoker").expanduser().absolute())

    def child_settings(self, child: str) -> Path:
        return self.run / f"{child}.json"

    def kv(self, engine: str) -> Path:
        return self.home / "kv" / engine

    def epoch(self, engine: str) -> Path:
        return self.run / f"{engine}.epoch"

    def socket(self, engine: str) -> Path:
        """The engine's Unix socket; in the system's temporary folder when the home's path is too long for one."""
        path = self.run / f"{engine}.sock"
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
            return path
        digest = hashlib.sha256(os.fsencode(self.run)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"stoker-{os.getuid()}-{digest}" / f"{engine}.sock"
