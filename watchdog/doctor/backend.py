"""What MLX computes on: Metal, CUDA or the CPU, and whether it has what makes that fast."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from .findings import Finding, Layer, Level
from .system import System

_finding = partial(Finding, Layer.BACKEND)

WIRED_SHARE = 0.75
"""How much of the memory macOS lets the GPU keep by itself, about."""


class Backend(StrEnum):
    """Where arrays are computed."""

    METAL = "Metal"
    CUDA = "CUDA"
    CPU = "CPU"
    NONE = "none"


@dataclass(frozen=True)
class BackendReading:
    """What the machine has; `engine_has_openblas` is None where no engine runs or its files cannot be seen."""

    backend: Backend
    system: str
    openblas_missing: str | None
    engine_has_openblas: bool | None
    wired_limit_bytes: int | None
    weights_bytes: int | None


def backend_of(platform: str, machine: str) -> Backend:
    """What MLX would compute on; nothing is imported for it."""
    if platform == "darwin":
        return Backend.METAL if machine == "arm64" else Backend.NONE
    if any(_installed(package) for package in ("mlx-cuda-12", "mlx-cuda-13")):
        return Backend.CUDA
    return Backend.CPU if platform == "linux" else Backend.NONE


def read_backend(
    system: System, engine_maps: Path | None, memory_bytes: int | None, weights_bytes: int | None
) -> BackendReading:
    """Look at the machine, and at what a running engine has mapped: Linux's file of that, None without an engine."""
    backend = backend_of(system.platform, system.machine)
    return BackendReading(
        backend=backend,
        system=f"{system.platform} on {system.machine}",
        openblas_missing=system.openblas_missing() if backend is Backend.CPU else None,
        engine_has_openblas=_maps_openblas(engine_maps) if backend is Backend.CPU else None,
        wired_limit_bytes=_wired_limit(system, memory_bytes) if backend is Backend.METAL else None,
        weights_bytes=weights_bytes,
    )


def judge_backend(reading: BackendReading) -> list[Finding]:
    """The backend, then what it needs."""
    if reading.backend is Backend.NONE:
        remedy = "use a Mac with Apple silicon, or Linux"
        return [_finding("backend", Level.FAILURE, f"MLX has nothing to compute on: {reading.system}", remedy)]
    findings = [_finding("backend", Level.OK, f"{reading.backend} ({reading.system})")]
    if reading.backend is Backend.CPU:
        findings.append(_judge_openblas(reading))
    if reading.wired_limit_bytes is not None and reading.weights_bytes is not None:
        findings.append(_judge_wired(reading.wired_limit_bytes, reading.weights_bytes))
    return findings


def wired_limit(sysctl: str, memory_bytes: int) -> int:
    """Bytes that the GPU may keep, from `sysctl iogpu.wired_limit_mb`; 0 there is the system's own choice."""
    match = re.search(r"iogpu\.wired_limit_mb:\s*(\d+)", sysctl)
    megabytes = int(match[1]) if match else 0
    return megabytes * 1024 * 1024 if megabytes else int(WIRED_SHARE * memory_bytes)


def _judge_openblas(reading: BackendReading) -> Finding:
    if reading.openblas_missing is not None:
        cause, _, remedy = reading.openblas_missing.partition(". ")
        return _finding("OpenBLAS", Level.FAILURE, cause, remedy)
    if reading.engine_has_openblas is False:
        remedy = "it was installed after the start: `stoker engine restart`"
        return _finding("OpenBLAS", Level.FAILURE, "installed, but the running engine has not loaded it", remedy)
    return _finding("OpenBLAS", Level.OK, "loaded" if reading.engine_has_openblas else "installed")


def _judge_wired(limit_bytes: int, weights_bytes: int) -> Finding:
    measured = f"the GPU may keep {limit_bytes / 1e9:.1f} GB, the weights take {weights_bytes / 1e9:.1f} GB"
    if weights_bytes > limit_bytes:
        needed = int(weights_bytes * 1.2 / 1024 / 1024)
        remedy = f"raise it with `sudo sysctl iogpu.wired_limit_mb={needed}`, or set `engine.model` to a smaller model"
        return _finding("wired limit", Level.FAILURE, measured, remedy)
    return _finding("wired limit", Level.OK, measured)


def _maps_openblas(maps: Path | None) -> bool | None:
    if maps is None:
        return None
    try:
        return "openblas" in maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _wired_limit(system: System, memory_bytes: int | None) -> int | None:
    limit = system.said("/usr/sbin/sysctl", "iogpu.wired_limit_mb")
    return None if limit is None or memory_bytes is None else wired_limit(limit, memory_bytes)


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
