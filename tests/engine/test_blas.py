"""OpenBLAS is found where distributions put it, preloaded without losing what was there, and missed aloud."""

from __future__ import annotations

import pytest

from stoker.engine.blas import System, find_openblas, missing_warning, preload_environment

DEBIAN = "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0"


def system(*files: str, platform: str = "linux", libraries: tuple[str, ...] = ()) -> System:
    """A machine on which only `files` exist and the loader knows `libraries`."""
    return System(
        platform=platform,
        machine="aarch64",
        is_file=lambda path: str(path) in files,
        find_library=lambda name: f"lib{name}.so.0" if name in libraries else None,
    )


@pytest.mark.parametrize("path", [DEBIAN, "/usr/lib64/libopenblasp.so.0", "/usr/lib/libopenblas.so.0"])
def test_openblas_is_found_where_distributions_put_it(path: str) -> None:
    assert find_openblas(system(path)) == path


def test_the_loader_is_asked_when_no_known_path_exists_and_threads_are_preferred() -> None:
    assert find_openblas(system(libraries=("openblas",))) == "libopenblas.so.0"
    assert find_openblas(system(libraries=("openblas", "openblasp"))) == "libopenblasp.so.0"
    assert find_openblas(system()) is None


def test_openblas_joins_what_is_preloaded_already() -> None:
    here = system(DEBIAN)
    assert preload_environment({"HOME": "/home/me"}, here) == {"HOME": "/home/me", "LD_PRELOAD": DEBIAN}
    assert preload_environment({"LD_PRELOAD": "libjemalloc.so"}, here) == {"LD_PRELOAD": f"libjemalloc.so:{DEBIAN}"}


def test_an_openblas_that_is_preloaded_already_is_left_alone() -> None:
    environment = {"LD_PRELOAD": "/opt/openblas/libopenblas.so"}
    assert preload_environment(environment, system(DEBIAN)) == environment


def test_the_given_environment_is_not_changed() -> None:
    environment: dict[str, str] = {}
    preload_environment(environment, system(DEBIAN))
    assert environment == {}


def test_a_mac_needs_no_openblas() -> None:
    mac = system(DEBIAN, platform="darwin", libraries=("openblas",))
    assert preload_environment({}, mac) == {}
    assert missing_warning(mac) is None


def test_a_missing_openblas_is_said_with_the_way_to_install_it() -> None:
    assert preload_environment({}, system()) == {}
    warning = missing_warning(system())
    assert warning is not None
    assert "libopenblas0-pthread" in warning
    assert missing_warning(system(DEBIAN)) is None
