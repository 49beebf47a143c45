"""`stoker connect` finds the running endpoint, tries it, and says how to use it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED, RunningTree, stoker


def test_an_agent_is_connected_to_the_running_tree(
    tree: RunningTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = stoker(tree.home, "connect", "claude-code", "--write")
    assert done.returncode == 0, done.stderr
    assert f"ANTHROPIC_BASE_URL={tree.api}" in done.stdout
    assert "answered over the anthropic API" in done.stderr
    written = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    assert written["env"]["ANTHROPIC_BASE_URL"] == tree.api


def test_a_key_that_is_missing_is_asked_for(serve_tree: ServeTree, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"alice {hashlib.sha256(b'sk-alice').hexdigest()}\n")
    keys.chmod(0o600)
    tree = serve_tree(SIMULATED.replace("[server]", f'[server]\napi_keys = "{keys}"'))
    refused = stoker(tree.home, "connect", "openai")
    assert refused.returncode == 2
    assert "--key" in refused.stderr
    done = stoker(tree.home, "connect", "openai", "--key", "sk-alice")
    assert done.returncode == 0, done.stderr
    assert "OPENAI_API_KEY=sk-alice" in done.stdout


def test_no_endpoint_is_said_in_one_sentence(tmp_path: Path) -> None:
    refused = stoker(tmp_path, "connect", "aider", "--url", "http://127.0.0.1:9")
    assert refused.returncode == 2
    assert "is `stoker serve` running there?" in refused.stderr
