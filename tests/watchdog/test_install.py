"""The init system gets a file that it understands, is told of it, and hears how the tree is."""

from __future__ import annotations

import asyncio
import plistlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker.config import Config
from stoker.watchdog.errors import InitSystemFailed, NoInitSystem
from stoker.watchdog.install import Installation, install, installation, run_command, uninstall
from stoker.watchdog.notify import Notifier
from stoker.watchdog.units import Serve, launchd_plist, longest_stop_s, systemd_unit

AWKWARD = "/srv/my stoker 100% $HOME"


def serve_on(home: str = "/srv/stoker") -> Serve:
    return Serve(Path(sys.executable).with_name("stoker"), Path(home), Path(home) / "stoker.toml", stop_s=65)


def verify(unit: str, folder: Path, *scope: str) -> str:
    """What `systemd-analyze verify` has to say about a unit; nothing is what we want."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    path = folder / "stoker.service"
    path.write_text(unit)
    command = ["systemd-analyze", *scope, "verify", "--man=no", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return "\n".join(line for line in done.stderr.splitlines() if "stoker.service" in line)


@pytest.mark.parametrize("home", ["/srv/stoker", AWKWARD])
def test_systemd_understands_the_unit_of_the_system(home: str, tmp_path: Path) -> None:
    assert verify(systemd_unit(serve_on(home), user="root"), tmp_path) == ""


@pytest.mark.parametrize("home", ["/srv/stoker", AWKWARD])
def test_systemd_understands_the_unit_of_a_user(home: str, tmp_path: Path) -> None:
    assert verify(systemd_unit(serve_on(home), user=None), tmp_path, "--user") == ""


def test_a_home_with_special_characters_reaches_systemd_as_it_is() -> None:
    unit = systemd_unit(serve_on(AWKWARD), user="ada")
    assert 'Environment="STOKER_HOME=/srv/my stoker 100%% $HOME"' in unit
    assert '"--config" "/srv/my stoker 100%% $$HOME/stoker.toml"' in unit
    assert "User=ada" in unit


def test_an_engine_that_the_kernel_kills_is_left_to_the_watchdog() -> None:
    unit = systemd_unit(serve_on(), user=None)
    assert {"OOMPolicy=continue", "KillMode=mixed", "Type=notify", "RestartPreventExitStatus=2"} <= set(
        unit.split("\n")
    )


def test_launchd_gets_a_property_list_that_brings_the_tree_back_but_not_after_a_clean_end() -> None:
    agent = plistlib.loads(launchd_plist(serve_on(AWKWARD)))
    assert agent["ProgramArguments"][1:] == ["serve", "--config", f"{AWKWARD}/stoker.toml"]
    assert agent["EnvironmentVariables"] == {"STOKER_HOME": AWKWARD}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ExitTimeOut"] == 65


def test_the_init_system_waits_for_the_slowest_orderly_end() -> None:
    config = Config()
    assert longest_stop_s(config) > config.server.drain_deadline_s + 2 * config.watchdog.stop_deadline_s


def test_a_mac_gets_an_agent_and_a_linux_account_a_unit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    mac = installation(serve_on(), None, platform="darwin", uid=501)
    assert mac.path == tmp_path / "Library/LaunchAgents/stoker.serve.plist"
    assert mac.load == (("launchctl", "bootstrap", "gui/501", str(mac.path)),)
    linux = installation(serve_on(), None, platform="linux", uid=1000)
    assert linux.path == tmp_path / ".config/systemd/user/stoker.service"
    assert linux.load[-1] == ("systemctl", "--user", "enable", "--now", "stoker.service")


@pytest.mark.parametrize(
    ("platform", "uid", "user", "way_out"),
    [("linux", 0, None, "--user NAME"), ("linux", 1000, "ada", "leave --user out"), ("aix", 1000, None, "aix")],
)
def test_what_cannot_be_installed_says_what_to_do(platform: str, uid: int, user: str | None, way_out: str) -> None:
    with pytest.raises(NoInitSystem, match=way_out):
        installation(serve_on(), user, platform=platform, uid=uid)


def test_what_is_installed_can_be_taken_away_again(tmp_path: Path) -> None:
    ran: list[Sequence[str]] = []
    what = Installation(
        tmp_path / "deep" / "unit", b"content", load=(("load",),), unload=(("stop",),), forget=(("f",),)
    )
    install(what, ran.append)
    assert what.path.read_bytes() == b"content"
    assert uninstall(what, ran.append)
    assert not what.path.exists()
    assert ran == [("load",), ("stop",), ("f",)]
    assert not uninstall(what, ran.append)


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(InitSystemFailed, match="failed with 3: no bus"):
        run_command(["sh", "-c", "echo no bus >&2; exit 3"])
    with pytest.raises(InitSystemFailed, match="--print"):
        run_command(["no-such-command-anywhere"])


async def test_systemd_hears_ready_alive_and_stopping(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(address))
        listening.setblocking(False)
        async with Notifier(str(address)).serving("demo at http://127.0.0.1:8000"):
            heard = [await asyncio.get_running_loop().sock_recv(listening, 200) for _ in range(2)]
        heard.append(await asyncio.get_running_loop().sock_recv(listening, 200))
    assert heard == [b"READY=1\nSTATUS=demo at http://127.0.0.1:8000", b"WATCHDOG=1", b"STOPPING=1"]


@pytest.mark.parametrize("address", [None, "/no/such/socket"])
async def test_an_init_system_that_does_not_listen_changes_nothing(address: str | None) -> None:
    async with Notifier(address).serving("demo"):
        pass
