"""All layers in order, or those that a symptom leads to. What one layer learnt is what the next one looks at."""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path

from ...config import Config, Engine, EngineProcess, Paths
from ..endpoint import EndpointClient
from ..ports import ListeningSocket
from ..samples import HostReading
from .api import judge_api, read_api
from .backend import Backend, backend_of, judge_backend, read_backend
from .engine import judge_engine
from .findings import Finding, Layer, Level, Symptom, layers_for
from .hardware import judge_hardware, read_hardware
from .runtime import RuntimeReading, judge_runtime, read_runtime
from .server import ServerReading, judge_server, read_server
from .system import THIS_SYSTEM, System


class Examination:
    """Our own tree and its machine. Reads no layer twice, and none that is not asked for."""

    def __init__(self, paths: Paths, config_file: Path | None, key: str | None, system: System = THIS_SYSTEM) -> None:
        self._paths = paths
        self._key = key
        self._system = system
        self.server: ServerReading = read_server(paths, config_file)
        self._config = self.server.config or Config()

    def findings(self, symptom: Symptom | None) -> list[Finding]:
        """From the API down, or in the order of the symptom."""
        return [finding for layer in layers_for(symptom) for finding in self.layer(layer)]

    def layer(self, layer: Layer) -> list[Finding]:
        """What there is to say about one layer."""
        match layer:
            case Layer.API:
                return judge_api(read_api(EndpointClient(self._api_url(), self._key)))
            case Layer.SERVER:
                return judge_server(self.server)
            case Layer.ENGINE:
                return self._engines()
            case Layer.RUNTIME:
                return [_not_without_mlx(layer)] if self._runtime is None else judge_runtime(self._runtime)
            case Layer.BACKEND:
                return self._backend()
            case Layer.HARDWARE:
                return judge_hardware(read_hardware(self._system, self._paths.home, self._host))

    def _engines(self) -> list[Finding]:
        if self.server.status is None:
            return [Finding(Layer.ENGINE, "state", Level.SKIPPED, "no tree runs that could be asked")]
        return [finding for engine in self.server.status.engines for finding in judge_engine(engine)]

    def _backend(self) -> list[Finding]:
        if self._runtime is None:
            return [_not_without_mlx(Layer.BACKEND)]
        engines = () if self.server.status is None else self.server.status.engines
        pid = next((engine.pid for engine in engines), None)
        maps = None if pid is None else self._config.watchdog.sensors.proc / str(pid) / "maps"
        model = self._runtime.model
        weights_bytes = None if model is None else model.bytes
        return judge_backend(read_backend(self._system, maps, self._host.memory_bytes, weights_bytes))

    @cached_property
    def _runtime(self) -> RuntimeReading | None:
        """None for the simulated engine, and where nothing says which model it would be."""
        engine = self._engine_settings()
        if engine is None or engine.kind != "mlx":
            return None
        on_cpu = backend_of(self._system.platform, self._system.machine) is Backend.CPU
        return read_runtime(engine.model, self._paths.models, self._host.memory_bytes, on_cpu=on_cpu)

    def _engine_settings(self) -> Engine | None:
        """What a running engine was told, which `--model` may have said; else what the file says to the next one."""
        for engine in () if self.server.status is None else self.server.status.engines:
            # Files that cannot be read, or of another version.
            with contextlib.suppress(OSError, ValueError):
                told = self._paths.child_settings(f"engine-{engine.name}").read_bytes()
                return EngineProcess.model_validate_json(told).engine
        return None if self.server.config is None else self.server.config.engine

    @cached_property
    def _host(self) -> HostReading:
        """This machine's sensors, read where the configuration says."""
        return self._system.host_sensor(self._paths.home, self._config.watchdog.sensors).read()

    def _api_url(self) -> str:
        """Where the tree says that it serves, else where a client would look for it."""
        if self.server.status is not None:
            return self.server.status.service.url
        server = self._config.server
        return ListeningSocket(server.host, server.port, "").url


def examine_foreign(url: str, key: str | None) -> list[Finding]:
    """Another server: what a client can see of it."""
    return judge_api(read_api(EndpointClient(url, key)))


def _not_without_mlx(layer: Layer) -> Finding:
    return Finding(layer, layer.value, Level.SKIPPED, "the configuration names no MLX engine")
