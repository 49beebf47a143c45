"""Files under `$STOKER_HOME`: who holds it, private writes, the epoch that outlives trees, the token of operators."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import structlog

from ..config import Paths
from .errors import HomeInUse, HomeUnusable

ORPHANS_POLL_S = 0.1

log = structlog.get_logger(__name__)


class Serving(msgspec.Struct, frozen=True):
    """`run/serve.json`: where the running tree can be reached."""

    pid: int
    api: str
    watchdog: str


def serving_path(paths: Paths) -> Path:
    return paths.run / "serve.json"


def private_folder(path: Path) -> None:
    """Create `path` for this user alone. Raises `HomeUnusable` when it is somebody else's or cannot be made."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise HomeUnusable(f"{path} is not a folder of this user; move it away or set another STOKER_HOME")
        path.chmod(0o700)
    except OSError as error:
        raise HomeUnusable(f"cannot use {path}: {error.strerror}; mend that or set another STOKER_HOME") from error


def replace_private(path: Path, content: bytes) -> None:
    """Replace the file in one step; only this user can read it. A failure leaves the old one. Raises `OSError`."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def write_private(path: Path, content: bytes) -> None:
    """`replace_private` for a file of the home. Raises `HomeUnusable`."""
    try:
        replace_private(path, content)
    except OSError as error:
        raise HomeUnusable(
            f"cannot write {path}: {error.strerror}; make room or mend its permissions, or set another STOKER_HOME"
        ) from error


@contextlib.contextmanager
def held(paths: Paths, orphans_deadline_s: float, on_wait: Callable[[int], None]) -> Iterator[int]:
    """Hold the home; yields the lock's descriptor, which every child inherits.

    So the lock lasts for as long as anything of the tree lives: after a SIGKILL of the watchdog its children need a
    moment to end, and meanwhile the home, its sockets and its port are still theirs. `on_wait` hears the pid of such
    a dead holder. Raises `HomeInUse` with the holder's pid.
    """
    private_folder(paths.run)
    try:
        lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise HomeUnusable(
            f"cannot open {paths.lock}: {error.strerror}; mend that or set another STOKER_HOME"
        ) from error
    try:
        _lock(lock, paths, time.monotonic() + orphans_deadline_s, on_wait)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock
    finally:
        os.close(lock)


def _lock(lock: int, paths: Paths, deadline: float, on_wait: Callable[[int], None]) -> None:
    waiting = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pid = holder(lock)
        if pid is None or psutil.pid_exists(pid):
            raise HomeInUse(
                f"{paths.home} is in use by another `stoker serve` (pid {pid or 'unknown'}); "
                "stop that one, or set STOKER_HOME to another folder"
            )
        if time.monotonic() > deadline:
            raise HomeInUse(
                f"{paths.home} is still in use by children of a `stoker serve` that is gone (pid {pid}); "
                f"find them with `lsof {paths.lock}` and end them"
            )
        if not waiting:
            on_wait(pid)
            waiting = True
        time.sleep(ORPHANS_POLL_S)


def holder(lock: int) -> int | None:
    """Who wrote its pid into the lock last; nobody removes it, because children may hold the lock longer."""
    text = os.pread(lock, 32, 0)
    return int(text) if text.isdigit() else None


class EpochCounter:
    """The incarnations of one engine, counted across trees so that no two ever share a number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = self._read()

    def next(self) -> int:
        """Count one more. A disk that cannot be written must not keep an engine down: the count goes on in memory."""
        self._epoch += 1
        try:
            write_private(self._path, str(self._epoch).encode())
        except HomeUnusable as error:
            log.warning("epoch_not_kept", error=str(error))
        return self._epoch

    def _read(self) -> int:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        if content.isdigit():
            return int(content)
        log.warning("epoch_file_damaged", path=str(self._path), content=repr(content[:40]))
        return 0


def admin_token(paths: Paths) -> str:
    """What an operator's command must show; made at the first serve, kept for this user alone."""
    with contextlib.suppress(FileNotFoundError):
        if token := paths.admin_token.read_text(encoding="ascii").strip():
            return token
    token = secrets.token_urlsafe(32)
    write_private(paths.admin_token, token.encode())
    return token
