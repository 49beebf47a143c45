"""Hand the tree to the machine's init system, and take it back: launchd on a Mac, systemd on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import InitSystemFailed, NoInitSystem
from .units import LAUNCHD_LABEL, SYSTEMD_UNIT, Serve, launchd_plist, systemd_unit

SYSTEM_UNITS = Path("/etc/systemd/system")
COMMAND_DEADLINE_S = 60.0

Run = Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class Installation:
    """The file that an init system reads, what makes it read and start it, and what stops and forgets it."""

    path: Path
    content: bytes
    load: tuple[tuple[str, ...], ...]
    unload: tuple[tuple[str, ...], ...]
    forget: tuple[tuple[str, ...], ...]
    """After the file is gone."""
    hint: str | None = None
    """What the person must do for the rest, as one sentence."""


def installation(serve: Serve, user: str | None, platform: str = sys.platform, uid: int | None = None) -> Installation:
    """What fits this machine; `user` is the account that a system-wide unit runs as. Raises `NoInitSystem`."""
    uid = os.getuid() if uid is None else uid
    if platform == "darwin":
        return _launchd(serve, uid)
    if platform != "linux":
        raise NoInitSystem(f"no launchd and no systemd on {platform}; start `stoker serve` by what this system has")
    if uid == 0 and user is None:
        raise NoInitSystem("as root, name the account that shall run it: `stoker install --user NAME`")
    if uid != 0 and user is not None:
        raise NoInitSystem("only root can install for another account; leave --user out to install for yourself")
    return _systemd(serve, user)


def install(what: Installation, run: Run) -> None:
    """Write the file and start it now and at every boot or login. Raises `InitSystemFailed`."""
    try:
        what.path.parent.mkdir(parents=True, exist_ok=True)
        what.path.write_bytes(what.content)
    except OSError as error:
        raise InitSystemFailed(f"cannot write {what.path}: {error.strerror}; mend its permissions") from error
    for command in what.load:
        run(command)


def uninstall(what: Installation, run: Run) -> bool:
    """Stop it and remove the file; False when it was not installed. Raises `InitSystemFailed`."""
    if not what.path.exists():
        return False
    for command in what.unload:
        run(command)
    what.path.unlink()
    for command in what.forget:
        run(command)
    return True


def run_command(command: Sequence[str]) -> None:
    """Raises `InitSystemFailed` with what the command said."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_DEADLINE_S, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise InitSystemFailed(
            f"`{command[0]}` is not on this machine; print the unit with `stoker install --print`"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InitSystemFailed(f"`{' '.join(command)}` gave no answer for {COMMAND_DEADLINE_S:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise InitSystemFailed(
            f"`{' '.join(command)}` failed with {done.returncode}: {said[-1] if said else 'silence'}"
        )


def _launchd(serve: Serve, uid: int) -> Installation:
    path = Path.home() / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist"
    domain = f"gui/{uid}"
    return Installation(
        path=path,
        content=launchd_plist(serve),
        load=(("launchctl", "bootstrap", domain, str(path)),),
        unload=(("launchctl", "bootout", f"{domain}/{LAUNCHD_LABEL}"),),
        forget=(),
        hint="it starts at login; for a Mac that nobody logs in to, switch on automatic login",
    )


def _systemd(serve: Serve, user: str | None) -> Installation:
    folder = SYSTEM_UNITS if user is not None else _user_units()
    systemctl = ("systemctl",) if user is not None else ("systemctl", "--user")
    reload = (*systemctl, "daemon-reload")
    return Installation(
        path=folder / SYSTEMD_UNIT,
        content=systemd_unit(serve, user).encode(),
        load=(reload, (*systemctl, "enable", "--now", SYSTEMD_UNIT)),
        unload=((*systemctl, "disable", "--now", SYSTEMD_UNIT),),
        forget=(reload,),
        hint=None if user is not None else "it ends when you log out, unless you run `loginctl enable-linger` once",
    )


def _user_units() -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(configuration) / "systemd" / "user"
