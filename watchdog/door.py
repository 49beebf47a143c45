"""What is checked before the tree starts, and what is held while it runs: the home, both ports, the model.

Each check fails with one sentence that names the thing and the way out, and before anything of a running tree or a
later start has been touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..config import Config, Paths
from ..engine import models
from ..engine.progress import Progress
from .home import held
from .ports import ListeningSocket


@dataclass(frozen=True)
class Premises:
    """Everything a tree needs from its machine, held by this process. `lock` is inherited by every child."""

    config: Config
    paths: Paths
    lock: int
    api: ListeningSocket
    watchdog: ListeningSocket
    model_name: str
    model_path: Path | None
    draft_model_path: Path | None


@contextlib.contextmanager
def premises(config: Config, paths: Paths, progress: Progress, say: Callable[[str], None]) -> Iterator[Premises]:
    """Check and hold. `say` hears why it takes longer than usual.

    Raises `HomeInUse`, `HomeUnusable`, `AddressUnavailable` or `ModelError`.
    """
    server, watchdog = config.server, config.watchdog
    with contextlib.ExitStack() as stack:
        # An orphan may use its whole drain deadline, as it would have under its own watchdog.
        orphans_deadline_s = server.drain_deadline_s + watchdog.stop_deadline_s
        lock = stack.enter_context(held(paths, orphans_deadline_s, lambda pid: say(_orphans(pid))))
        api = ListeningSocket(server.host, server.port, "choose another with `--port`")
        observed = ListeningSocket(watchdog.host, watchdog.port, "choose another with `--watchdog-port`")
        for listening in (api, observed):
            stack.callback(listening.close)
            listening.open()
        # A model can take long to fetch; clients are refused meanwhile, not left to hang in a queue.
        api.close()
        observed.close()
        name, path = _model(config, paths, progress)
        draft = _draft_model(config, paths, path, progress)
        api.open()
        observed.open()
        yield Premises(config, paths, lock, api, observed, name, path, draft)


def _model(config: Config, paths: Paths, progress: Progress) -> tuple[str, Path | None]:
    """The name that clients see and the checked folder; the simulated engine has none."""
    if config.engine.kind == "simulated":
        return "simulated", None
    path = models.ensure(config.engine.model, paths.models, progress)
    return models.model_name(config.engine.model), path


def _draft_model(config: Config, paths: Paths, target: Path | None, progress: Progress) -> Path | None:
    """The checked folder of the draft model, if one is configured; it must share the target's vocabulary."""
    if config.engine.draft_model is None or target is None:
        return None
    path = models.ensure(config.engine.draft_model, paths.models, progress)
    models.check_draft(target, path)
    return path


def _orphans(pid: int) -> str:
    return f"waiting for the children of a `stoker serve` that is gone (pid {pid}) to end"
