"""All layers in order, or those that a symptom leads to. What one layer learnt is what the next one looks at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...config import Config, Paths
from ..endpoint import EndpointClient
from ..ports import ListeningSocket
from ..samples import HostReading
from .api import judge_api, read_api
from .backend import Backend, backend_here, judge_backend, read_backend
from .engine import judge_engine
from .findings import Finding, Layer, Level, Symptom, layers_for
from .hardware import judge_hardware, read_hardware
from .runtime import RuntimeReading, judge_runtime, read_runtime
from .server import ServerReading, judge_server, read_server


class Examination:
    """Our own tree and its machine. Reads no layer twice, and none that is not asked for."""

    def __init__(
        self, paths: Paths, config_file: Path | None, key: str | None, host: Callable[[], HostReading]
    ) -> None:
        """`host` reads this machine's sensors."""
        self._paths = paths
        self._key = key
        self._host = host
        self.server: ServerReading = read_server(paths, config_file)
        self._runtime = self._read_runtime()

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
                return judge_hardware(read_hardware(self._paths.home, self._host()))

    def _engines(self) -> list[Finding]:
        if self.server.status is None:
            return [Finding(Layer.ENGINE, "state", Level.SKIPPED, "no tree runs that could be asked")]
        return [finding for engine in self.server.status.engines for finding in judge_engine(engine)]

    def _backend(self) -> list[Finding]:
        if self._runtime is None:
            return [_not_without_mlx(Layer.BACKEND)]
        engines = () if self.server.status is None else self.server.status.engines
        model = self._runtime.model
        pid = next((engine.pid for engine in engines), None)
        return judge_backend(read_backend(pid, None if model is None else model.bytes))

    def _read_runtime(self) -> RuntimeReading | None:
        """None for the simulated engine, and where the configuration does not say which model it would be."""
        config = self.server.config
        if config is None or config.engine.kind != "mlx":
            return None
        return read_runtime(config, self._paths, backend_here() is Backend.METAL)

    def _api_url(self) -> str:
        """Where the tree says that it serves, else where a client would look for it."""
        if self.server.status is not None:
            return self.server.status.service.url
        server = (self.server.config or Config()).server
        return ListeningSocket(server.host, server.port, "").url


def examine_foreign(url: str, key: str | None) -> list[Finding]:
    """Another server: what a client can see of it."""
    return judge_api(read_api(EndpointClient(url, key)))


def _not_without_mlx(layer: Layer) -> Finding:
    return Finding(layer, layer.value, Level.SKIPPED, "the configuration names no MLX engine")
