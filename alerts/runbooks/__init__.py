"""One page for each alert: what it means, what Stoker did about it, where to look, what to do, when it is over."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
WATCHDOG = "http://127.0.0.1:8001"
"""A watchdog on its usual port, which answers with them."""


def runbook_url(alert: str, watchdog: str = WATCHDOG) -> str:
    """The page of an alert, at a watchdog."""
    return f"{watchdog}/runbooks/{alert}"


def page(alert: str) -> str | None:
    """Its text; None when there is none by that name."""
    pages = {file.stem: file for file in FOLDER.glob("*.md")}
    file = pages.get(alert)
    return None if file is None else file.read_text(encoding="utf-8")
