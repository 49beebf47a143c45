"""Rigs that are gone when their tests are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.service.rig import Rig


@pytest.fixture
async def make_rig(tmp_path: Path) -> AsyncIterator[Callable[..., Rig]]:
    """Makes rigs with the arguments of `Rig`, its folder excepted."""
    async with rigs_in(tmp_path) as make:
        yield make


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def make_shared_rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Callable[..., Rig]]:
    """The same for a module whose tests leave a rig as it was, and run in the module's loop."""
    async with rigs_in(tmp_path_factory.mktemp("rig")) as make:
        yield make


@asynccontextmanager
async def rigs_in(folder: Path) -> AsyncIterator[Callable[..., Rig]]:
    """Makes them there, and stops them in the end."""
    rigs: list[Rig] = []

    def make(**settings: Any) -> Rig:
        rigs.append(Rig(folder, **settings))
        return rigs[-1]

    yield make
    for rig in rigs:
        await rig.stop()
