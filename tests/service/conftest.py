"""Rigs that are gone when their test is, and Hypothesis without a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.service.rig import Rig

# Whoever else uses this machine decides how long an example takes.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture
async def make_rig(tmp_path: Path) -> AsyncIterator[Callable[..., Rig]]:
    """Makes rigs with the arguments of `Rig`, its folder excepted."""
    rigs: list[Rig] = []

    def make(**settings: Any) -> Rig:
        rigs.append(Rig(tmp_path, **settings))
        return rigs[-1]

    yield make
    for rig in rigs:
        await rig.stop()
