"""What the pages tell people to run exists: every `stoker` command with its options, every target of `make`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.commands_named import check_command

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def commands_in(text: str) -> list[list[str]]:
    """Of blocks of shell and of sentences: what stands before a pipe, a comment or the next command."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in re.sub(r"\\\n", " ", block).splitlines()]
    quoted = re.findall(r"`((?:\.venv/bin/)?stoker [^`]*|make [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    parts = [part.strip() for line in [*lines, *quoted] for part in re.split(r"\\?\||;|&&|\s#|\s>", line)]
    return [shlex.split(part) for part in parts if re.match(r"(\.venv/bin/)?stoker |make ", part)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: Path) -> None:
    for words in commands_in(page.read_text(encoding="utf-8")):
        if words[0] == "make":
            assert words[1] in TARGETS, words
        else:
            check_command([word for word in words if word != "…"])


def test_pages_do_have_commands() -> None:
    found = {tuple(words[:2]) for page in PAGES for words in commands_in(page.read_text(encoding="utf-8"))}
    assert {("make", "serve"), (".venv/bin/stoker", "connect"), ("stoker", "engine")} <= found
