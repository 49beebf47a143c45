"""Every example runs as its first lines say, against a real model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PROMISES = {"chat.py": r"Paris.*\[cache: hit=", "structured.py": r"has [\d,-]+ inhabitants"}

pytestmark = pytest.mark.model


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.glob("*.py")))
def test_an_example_does_what_it_says(example: str, api: str) -> None:
    clients = {"OPENAI_BASE_URL": f"{api}/v1", "ANTHROPIC_BASE_URL": api}
    keys = {"OPENAI_API_KEY": "stoker", "ANTHROPIC_API_KEY": "stoker"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / example],
        env={**os.environ, **clients, **keys},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(PROMISES[example], done.stdout, re.DOTALL), done.stdout
