"""OpenBLAS for the engine on Linux: MLX's CPU wheel carries the reference BLAS, about 20 times slower in prefill.

Preloading OpenBLAS into the engine's process alone replaces it. macOS has Accelerate, so nothing happens there.
"""

from __future__ import annotations

import ctypes.util
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class System:
    """What is asked of the machine."""

    platform: str
    machine: str
    is_file: Callable[[Path], bool]
    find_library: Callable[[str], str | None]


THIS_SYSTEM = System(sys.platform, platform.machine(), Path.is_file, ctypes.util.find_library)


def find_openblas(system: System = THIS_SYSTEM) -> str | None:
    """The path or name of an OpenBLAS for the loader, with threads where there is a choice; None if there is none."""
    if system.platform != "linux":
        return None
    known = (
        f"/usr/lib/{system.machine}-linux-gnu/openblas-pthread/libopenblas.so.0",  # Debian
        "/usr/lib64/libopenblasp.so.0",  # Fedora
        "/usr/lib/libopenblas.so.0",  # Arch
    )
    for path in known:
        if system.is_file(Path(path)):
            return path
    return system.find_library("openblasp") or system.find_library("openblas")


def preload_environment(environ: Mapping[str, str], system: System = THIS_SYSTEM) -> dict[str, str]:
    """`environ` for an engine's process: OpenBLAS added to what is preloaded already, if it is there to add."""
    environment = dict(environ)
    preloaded = environment.get("LD_PRELOAD", "")
    library = find_openblas(system)
    if library is not None and "openblas" not in preloaded:
        environment["LD_PRELOAD"] = f"{preloaded}:{library}" if preloaded else library
    return environment


def missing_warning(system: System = THIS_SYSTEM) -> str | None:
    """One sentence for a person whose engine will be slow, or None when it won't."""
    if system.platform != "linux" or find_openblas(system) is not None:
        return None
    return (
        "OpenBLAS is not installed: reading prompts on the CPU will be about 20 times slower than it could be. "
        "Install it with `apt-get install libopenblas0-pthread` (Debian, Ubuntu), "
        "`dnf install openblas-threads` (Fedora) or `pacman -S openblas` (Arch), and start again."
    )
