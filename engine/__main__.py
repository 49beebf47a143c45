"""`python -m stoker.engine SETTINGS.json`: one engine process."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable

import uvloop

from ..config import EngineProcess
from ..process import configure_logging, read_settings
from .batch import Batch
from .fault_signal import called_for
from .protocol import Limits
from .server import EngineServer

SIMULATED_CONTEXT_TOKENS = 32_768


def main() -> None:
    """Serve the model named in the settings until told to stop."""
    settings = read_settings(EngineProcess, sys.argv[1:])
    configure_logging(settings.name)
    engine = settings.engine
    called = called_for(engine.simulated.faults if engine.kind == "simulated" else engine.faults)

    def load() -> Batch:
        return _simulated(settings, called) if engine.kind == "simulated" else _mlx(settings, called)

    async def serve() -> int:
        return await EngineServer(settings, load).run()

    code = uvloop.run(serve())
    # The step thread may still be inside MLX, and a C++ thread that meets the interpreter's end aborts the process
    # ("terminate called without an active exception"): the exit code would be SIGABRT's. So that end is skipped.
    atexit.register(os._exit, code)
    sys.exit(code)


def _simulated(settings: EngineProcess, called: Callable[[], bool]) -> Batch:
    from .simulated import SimulatedBatch

    engine = settings.engine
    budget = engine.kv_budget_bytes
    limits = Limits(
        engine.max_running,
        engine.max_waiting,
        engine.context_tokens or SIMULATED_CONTEXT_TOKENS,
        kv_tokens=None if budget is None else budget // engine.simulated.token_bytes,
    )
    return SimulatedBatch(engine.simulated, limits, settings.epoch, called)


def _mlx(settings: EngineProcess, called: Callable[[], bool]) -> Batch:
    # MLX is imported on the step thread and nowhere else: its streams belong to the thread that made them.
    from .faulty import with_faults
    from .loading import load_batch

    return with_faults(load_batch(settings), settings.engine.faults, settings.epoch, called)


if __name__ == "__main__":
    main()
