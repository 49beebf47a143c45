"""The limit of a control group is found in both versions, in containers, and below groups that set none."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.engine.host_memory import cgroup_limit, physical_bytes

UNLIMITED_V1 = "9223372036854771712\n"


def root_with(folder: Path, groups: str, limits: dict[str, str]) -> Path:
    for name, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in limits.items()},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        pytest.param(
            "0::/system.slice/stoker.service\n",
            {"system.slice/stoker.service/memory.max": "1000\n"},
            1000,
            id="a service",
        ),
        pytest.param(
            "0::/a/b\n",
            {"a/b/memory.max": "max\n", "a/memory.max": "500\n", "memory.max": "900\n"},
            500,
            id="a group around it",
        ),
        pytest.param("0::/outside/name\n", {"memory.max": "700\n"}, 700, id="a container that sees another root"),
        pytest.param("4:cpu,memory:/box\n0::/\n", {"memory/box/memory.limit_in_bytes": "600\n"}, 600, id="version 1"),
        pytest.param(
            "4:memory:/box\n", {"memory/box/memory.limit_in_bytes": UNLIMITED_V1}, None, id="version 1 without a limit"
        ),
        pytest.param("0::/\n", {"memory.max": "max\n"}, None, id="version 2 without a limit"),
        pytest.param("nonsense\n\n0::\n", {"memory.max": "many\n"}, None, id="nonsense"),
        pytest.param("", {}, None, id="nothing"),
    ],
)
def test_the_smallest_limit_around_the_process_holds(
    tmp_path: Path, groups: str, limits: dict[str, str], expected: int | None
) -> None:
    assert cgroup_limit(root_with(tmp_path, groups, limits)) == expected


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert cgroup_limit(tmp_path) is None
    assert physical_bytes() > 1 << 28
