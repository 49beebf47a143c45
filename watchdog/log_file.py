"""The tree's log on disk: JSON lines under `$STOKER_HOME/logs`, rotated by size, so that days of it stay bounded.

A disk that is full or gone costs lines here and nothing else: they still go to standard error.
"""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from .home import private_folder

NAME = "stoker.log"


class LogFile:
    """`stoker.log`, and the `files` before it, of `max_bytes` each; a stream of `LogOutput`."""

    def __init__(self, folder: Path, max_bytes: int, files: int) -> None:
        """Raises `HomeUnusable` when the folder is somebody else's or cannot be made."""
        private_folder(folder)
        self._handler = _Rotating(folder / NAME, maxBytes=max_bytes, backupCount=files, encoding="utf-8", delay=True)

    def write(self, text: str) -> int:
        self._handler.emit(logging.makeLogRecord({"msg": text.rstrip("\n")}))
        return len(text)

    def flush(self) -> None:
        """Each line was."""

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        self._handler.close()


class _Rotating(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """No traceback on standard error for every line that a full disk does not take."""
