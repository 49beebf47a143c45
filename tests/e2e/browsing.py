"""A headless Chromium for tests of the status page, and axe-core, which knows what people with other senses need."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 30_000
AXE = "axe-core@4.10.3"
AXE_SHA512 = (
    "5e6edba515e70d25f6604d9815f064d859c5d1ea7ab661bbc4f87c88779ef0c2"
    "1cae0abbeb636471ef39e9d62d2582e4b88a1866f19f4ecfcf6d986275e4dc12"
)
FETCH_S = 30


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's; skips the test where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: install Debian's `chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def quiet_page(browser: Browser) -> Iterator[Page]:
    """A page that may not complain, but for what the browser reports of a server that refuses or is gone."""
    complaints: list[str] = []
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    yield page
    page.close()
    assert not [each for each in complaints if "status of 401" not in each and "net::ERR_" not in each]


def paint_and_updates_ms(page: Page, updates: int) -> tuple[float, float]:
    """When the status page was first painted, and how long its longest update took, once there were so many."""
    measured = "performance.getEntriesByType('measure').map((each) => each.duration)"
    deadline = time.monotonic() + PATIENCE_MS / 1000
    # What waits for a condition in the page would have to evaluate text there, which the page's policy forbids.
    while len(found := page.evaluate(measured)) < updates:
        assert time.monotonic() < deadline, f"only {len(found)} updates"
        page.wait_for_timeout(100)
    return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"), max(found)


def axe_violations(page: Page) -> list[str]:
    """What axe-core finds wrong with the page, one line each; skips the test where it cannot be fetched."""
    page.evaluate(_axe_script())
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]


def _axe_script() -> str:
    """Fetched once for each user, by npm, and never committed."""
    folder = Path(os.environ.get("STOKER_TEST_MODELS") or Path.home() / ".cache" / "stoker-tests")
    packed = folder / f"{AXE.replace('@', '-')}.tgz"
    if not packed.exists():
        _fetch(packed)
    assert hashlib.sha512(packed.read_bytes()).hexdigest() == AXE_SHA512, f"{packed} is not {AXE}; remove it"
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def _fetch(packed: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm, so axe-core cannot be fetched")
    packed.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(
            [npm, "pack", AXE, "--silent"], cwd=packed.parent, capture_output=True, check=True, timeout=FETCH_S
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"axe-core cannot be fetched: {error}")
