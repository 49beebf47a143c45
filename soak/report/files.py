"""Where reports lie: an HTML file and a Markdown file a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import NothingToReport
from ..intervals import Interval
from ..keeping import Run
from .markdown import markdown
from .page import page


def write(folder: Path, run: Run, intervals: Sequence[Interval]) -> list[Path]:
    """Both, anew. Raises `NothingToReport`."""
    if run.result is None or not intervals:
        raise NothingToReport(
            f"of soak run {run.id} no interval is kept, only its verdict; `stoker soak show {run.id}` has that"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    for suffix, text in ((".html", page(run, intervals)), (".md", markdown(run, intervals))):
        file = folder / f"soak-{run.id}{suffix}"
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written
