"""Trees for the end-to-end tests; each test leaves nothing running."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.running import SIMULATED, RunningTree, gone

ServeTree = Callable[..., RunningTree]


@pytest.fixture
def serve_tree(tmp_path: Path) -> Iterator[ServeTree]:
    """Start a tree with the given text of stoker.toml; it is stopped after the test."""
    trees: list[RunningTree] = []

    def serve(config: str = SIMULATED, home: Path | None = None) -> RunningTree:
        trees.append(RunningTree(home or tmp_path / "home", config))
        trees[-1].start()
        return trees[-1]

    yield serve
    for tree in trees:
        if tree.process.poll() is None:
            pids = tree.pids()
            tree.stop()
            for pid in pids:
                if not gone(pid):
                    os.kill(pid, signal.SIGKILL)
                    pytest.fail(f"process {pid} outlived its tree")


@pytest.fixture
def tree(serve_tree: ServeTree) -> RunningTree:
    """A ready tree with the simulated engine."""
    return serve_tree()


@pytest.fixture(scope="module")
def api(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tree with the demo model; its API's address."""
    config = f'[engine]\nmodel = "{demo_model}"\n[server]\nport = 0\n[watchdog]\nport = 0\n'
    tree = RunningTree(tmp_path_factory.mktemp("home"), config)
    tree.start()
    yield tree.api
    assert tree.stop() == 0
