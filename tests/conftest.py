"""Models that many tests share: the demo model, fetched once for each user, and a tiny random one for each run.

And Hypothesis without a clock.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from rich.console import Console

from stoker.engine.models import ensure
from stoker.engine.progress import progress_on
from tests.tiny_models import make_tiny_llama

# Whoever else uses this machine decides how long an example takes.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The demo model's folder; its tests are marked `model`. Kept in `$STOKER_TEST_MODELS` or the user's cache."""
    folder = os.environ.get("STOKER_TEST_MODELS") or Path.home() / ".cache" / "stoker-tests"
    return ensure("demo", Path(folder), progress_on(Console(stderr=True)))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama's folder; leave it as it is."""
    return make_tiny_llama(tmp_path_factory.mktemp("models") / "tiny")
