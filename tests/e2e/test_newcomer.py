"""A newcomer's path, by the README's own commands: clone, serve, ask, connect, kill, look.

Only what names a place is put in: where to clone from, free ports, and a home. The installed environment and
the demo model are linked to that place instead of fetched anew.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from stoker.watchdog.ports import ListeningSocket
from tests.e2e.browsing import chromium, quiet_page

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 120.0
PROMISED = "Stoker is ready"

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]


def blocks(section: str) -> list[str]:
    """The shell commands of one section of the README, block by block."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {section}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    assert found is not None, section
    return re.findall(r"^```sh\n(.*?)^```", found[1], re.DOTALL | re.MULTILINE)


def free_port() -> str:
    with_port = ListeningSocket("127.0.0.1", 0, "")
    with_port.open()
    with_port.close()
    return with_port.url.rpartition(":")[2]


class Newcomer:
    """Somebody at a terminal, in a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clone = folder / "stoker"
        self.port, self.watchdog_port = free_port(), free_port()
        (folder / ".stoker").mkdir()
        keep = {name: value for name, value in os.environ.items() if name != "STOKER_HOME"}
        self.environment = {**keep, "HOME": str(folder), "COLUMNS": "200"}

    def types(self, commands: str) -> str:
        """What they print, complaints included."""
        done = subprocess.run(
            ["bash", "-c", commands.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")],
            cwd=self.clone if self.clone.exists() else self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.stdout

    def serves(self, command: str) -> subprocess.Popen[str]:
        """Returns when it says that it is ready."""
        with (self.folder / "serve.log").open("w") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command} PORT={self.port} WATCHDOG_PORT={self.watchdog_port}"],
                cwd=self.clone,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert process.stdout is not None
        while PROMISED not in (line := process.stdout.readline()):
            assert line, f"it ended: {(self.folder / 'serve.log').read_text()}"
        return process


@pytest.fixture(scope="module")
def newcomer(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """With a clone that serves, by the two commands."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository, so there is nothing to clone")
    newcomer = Newcomer(tmp_path_factory.mktemp("newcomer"))
    (newcomer.folder / ".stoker" / "models").symlink_to(demo_model.parent)
    (block,) = blocks("Two commands")
    cloning, serving = block.splitlines()
    said = newcomer.types(cloning.replace("REPOSITORY", str(ROOT)))
    assert newcomer.clone.is_dir(), said
    install_here(newcomer.clone)
    process = newcomer.serves(serving)
    yield newcomer
    with process:
        os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode in (0, -signal.SIGTERM), "make dies of the signal that it passes on"


def install_here(clone: Path) -> None:
    """As `make install` would have done: the dependencies of this very run, and nothing newer than them."""
    (clone / ".venv").symlink_to(Path(sys.executable).parent.parent)
    stamp = clone / ".venv" / "installed"
    if not stamp.exists():
        pytest.skip("this environment was not made by `make install`")
    for name in ("requirements.lock", "pyproject.toml"):
        os.utime(clone / name, (0, 0))


def test_the_tour_keeps_its_promises(newcomer: Newcomer) -> None:
    ask, connect, kill, trace, look, soak = blocks("A ten-minute tour")
    assert "Paris" in "".join(re.findall(r'"content": ?"([^"]*)"', newcomer.types(ask)))
    assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{newcomer.port}" in newcomer.types(connect)
    killed = newcomer.types(kill)
    assert killed.count("data: [DONE]") == 1, killed
    assert '"error"' not in killed
    assert "killed by SIGKILL" in killed, "the status says so after the answer"
    waterfall = newcomer.types(trace)
    assert "stoker.resume" in waterfall
    assert "stoker.decode" in waterfall
    looked = newcomer.types(look)
    assert "engine_death" in looked
    assert "hardware" in looked
    tested = newcomer.types(soak)
    report = re.search(r"^report: (.*\.html)$", tested, re.MULTILINE)
    assert report is not None, tested
    with chromium() as browser, quiet_page(browser) as page:
        page.goto((newcomer.clone / report[1]).as_uri())
        expect(page.get_by_role("heading").first).to_be_visible()
    with urllib.request.urlopen(f"http://127.0.0.1:{newcomer.port}/", timeout=PATIENCE_S) as response:
        assert b"<title>Stoker</title>" in response.read()
