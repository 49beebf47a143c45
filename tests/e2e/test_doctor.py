"""`stoker doctor` on a tree that runs, on one that does not, and on a server that it only knows by its address."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from tests.e2e.running import SIMULATED, RunningTree, stoker


def test_a_healthy_tree_is_well_in_every_layer(tree: RunningTree, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    done = stoker(tree.home, "doctor", "--json", "--bundle", str(bundle))
    findings = json.loads(done.stdout)
    assert done.returncode == 0, findings
    assert {finding["layer"] for finding in findings} == {"api", "server", "engine", "runtime", "backend", "hardware"}
    wrong = [finding for finding in findings if finding["level"] == "failure"]
    assert not wrong
    with tarfile.open(bundle) as archive:
        assert "stoker-bundle/status.json" in archive.getnames()


def test_a_foreign_server_is_looked_at_as_a_client_sees_it(tree: RunningTree, tmp_path: Path) -> None:
    done = stoker(tmp_path, "doctor", "--url", tree.api + "/v1")
    assert done.returncode == 0, done.stdout
    assert "serves simulated" in done.stdout
    assert "hardware" not in done.stdout


def test_no_tree_is_a_failure_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "stoker.toml").write_text(SIMULATED)
    done = stoker(tmp_path, "doctor", "--symptom", "api")
    assert done.returncode == 1
    assert "stoker serve" in done.stdout
    assert "hardware" not in done.stdout
