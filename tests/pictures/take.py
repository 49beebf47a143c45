"""Draw every board as it is after a mixed run: `python -m tests.pictures.take [MODEL_FOLDER] [--minutes 4]`.

With `--prometheus URL` it draws what is there instead of running anything.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from stoker.dashboards.boards import BOARDS
from stoker.dashboards.build import as_json
from stoker.dashboards.panels import Board
from stoker.engine.models import ensure
from stoker.engine.progress import progress_on
from tests.dashboards.mixed_run import a_mixed_run
from tests.pictures.answers import Source, answers_to, marks

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "pictures"
PICTURES = HERE.parent.parent / "docs" / "pictures"
# What Grafana's own page sets for all that is in it.
BODY = "body { margin: 0; font: 14px Inter, 'DejaVu Sans', sans-serif } button { all: unset }"
ADDRESS = "http://board.test/"
CHROMIUM = "/usr/bin/chromium"
MODELS = Path.home() / ".cache" / "stoker-tests"
WIDTH = 1400


def page_of_everything() -> str:
    """The page's HTML, with the script, styles and packages that it needs inside it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "page.jsx"):
        shutil.copy(HERE / name, BUILD / name)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=BUILD, check=True)
    subprocess.run(["npm", "run", "--silent", "build"], cwd=BUILD, check=True)
    script, styles = ((BUILD / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    return f"<style>{BODY} {styles}</style><div id=board></div><script>{script}</script>"


def draw(browser: Browser, html: str, board: Board, source: Source) -> Path:
    """One board's picture."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 100})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # An address, answered here, since a page without one may keep no settings.
    page.route(ADDRESS, lambda route: route.fulfill(body=html, content_type="text/html; charset=utf-8"))
    page.goto(ADDRESS)
    page.evaluate("told => window.draw(told)", told(board, source))
    page.wait_for_timeout(1500)
    assert not complaints, complaints
    path = PICTURES / f"{board.uid}.png"
    seen = base64.b64encode(page.screenshot(full_page=True)).decode()
    path.write_bytes(base64.b64decode(page.evaluate("png => window.shrink(png)", seen)))
    page.close()
    return path


def told(board: Board, source: Source) -> dict[str, Any]:
    """What the page is given: the board as Grafana loads it, and each panel's answer by the panel's number."""
    made = json.loads(as_json(board))
    numbers = [panel["id"] for panel in made["panels"] if panel["type"] != "row"]
    return {
        "board": made,
        "answers": dict(zip(map(str, numbers), answers_to(board, source), strict=True)),
        "marks": marks(source),
        "times": {"from": source.begins, "to": source.ends, "step": source.step},
    }


def take(html: str, url: str, minutes: float) -> None:
    """All boards, into `docs/pictures`."""
    source = Source(url, time.time() - minutes * 60, time.time())
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for board in BOARDS:
            path = draw(browser, html, board, source)
            sys.stderr.write(f"{path} {path.stat().st_size / 1000:.0f} kB\n")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="default: the demo model")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--prometheus", help="draw what is there")
    asked = parser.parse_args()
    html = page_of_everything()
    if asked.prometheus:
        take(html, asked.prometheus, asked.minutes)
        return
    model = asked.model or ensure("demo", MODELS, progress_on(Console(stderr=True)))
    with a_mixed_run(model.resolve(), asked.minutes * 60) as (_, url):
        take(html, url, asked.minutes)


if __name__ == "__main__":
    main()
