"""A PostgreSQL server of our own for a test, where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEBIAN = "/usr/lib/postgresql/*/bin"


def programs() -> Path | None:
    """Where `initdb` is, beside everything else."""
    found = shutil.which("initdb") or next(map(str, Path("/").glob(f"{DEBIAN[1:]}/initdb")), None)
    return None if found is None else Path(found).resolve().parent


@contextmanager
def postgresql(programs: Path) -> Iterator[Path]:
    """The folder of its socket; database `postgres`, user `stoker`, nobody is asked for a password."""
    # Its sockets' paths must be short, and it runs for no root.
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="pg-") as name:
        folder = Path(name)
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        data = folder / "data"

        def run(*argv: str | Path) -> None:
            subprocess.run(argv, check=True, user=user, stdout=subprocess.DEVNULL, timeout=60, cwd=folder)

        run(programs / "initdb", "--no-sync", "--auth=trust", "--username=stoker", data)
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        run(programs / "pg_ctl", "--wait", "--log", folder / "log", "-o", options, "-D", data, "start")
        try:
            yield folder
        finally:
            run(programs / "pg_ctl", "--wait", "--mode=immediate", "-D", data, "stop")
