"""What an init system is told about the tree, so that it comes back after a crash, a logout and a reboot (pure).

systemd: `man systemd.service`, `systemd.exec`. launchd: `man launchd.plist`. Written for `stoker serve`, which says by
itself when it is ready and drains on SIGTERM, and which exits with 2 for what no restart will mend.
"""

from __future__ import annotations

import plistlib
from dataclasses import dataclass
from pathlib import Path

from ..config import Config

SYSTEMD_UNIT = "stoker.service"
LAUNCHD_LABEL = "stoker.serve"
ALIVE_PERIOD_S = 20.0
"""The watchdog tells systemd this often that it is alive; three missed words are its end."""
SHUTDOWN_MARGIN_S = 15.0
"""On top of what the tree gives its children to end."""
NEVER_MENDED_EXIT = 2

PRIVILEGED_HARDENING = """\
ProtectSystem=strict
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
PrivateTmp=yes
ReadWritePaths={home}
"""


@dataclass(frozen=True)
class Serve:
    """How `stoker serve` is to be run: `program` with the configuration file, on this home."""

    program: Path
    home: Path
    config: Path | None
    stop_s: float
    """The longest that the tree may take from SIGTERM to its end, in seconds."""

    @property
    def command(self) -> list[str]:
        return [str(self.program), "serve", *(["--config", str(self.config)] if self.config is not None else [])]


def longest_stop_s(config: Config) -> float:
    """The service drains, then the engine ends; each may need the stop deadline on top."""
    return config.server.drain_deadline_s + 2 * config.watchdog.stop_deadline_s + SHUTDOWN_MARGIN_S


def systemd_unit(serve: Serve, user: str | None) -> str:
    """A unit of the system that runs as `user`, or without one a unit of a user's own service manager.

    `OOMPolicy=continue`: an engine that the kernel kills for its memory is the watchdog's to replace, not a reason to
    end the tree. `KillMode=mixed`: only the watchdog hears SIGTERM, because the order of the end is its business.
    """
    account = f"User={user}\n" if user is not None else ""
    hardening = PRIVILEGED_HARDENING.format(home=_quoted(str(serve.home))) if user is not None else ""
    return f"""\
[Unit]
Description=Stoker, a local LLM endpoint that stays up
After=network.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={" ".join(map(_argument, serve.command))}
Environment={_quoted(f"STOKER_HOME={serve.home}")}
{account}Restart=always
RestartSec=2
RestartPreventExitStatus={NEVER_MENDED_EXIT}
TimeoutStartSec=infinity
TimeoutStopSec={serve.stop_s:.0f}
WatchdogSec={3 * ALIVE_PERIOD_S:.0f}
KillMode=mixed
OOMPolicy=continue
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes
{hardening}
[Install]
WantedBy={"multi-user.target" if user is not None else "default.target"}
"""


def launchd_plist(serve: Serve) -> bytes:
    """An agent of the user, as XML.

    `ProcessType` Interactive keeps macOS from throttling it as background work. The tree writes its own log files, so
    only what it says before it can do so is kept here.
    """
    agent = {
        "Label": LAUNCHD_LABEL,
        "ProgramArguments": serve.command,
        "EnvironmentVariables": {"STOKER_HOME": str(serve.home)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": round(serve.stop_s),
        "ProcessType": "Interactive",
        "SoftResourceLimits": {"NumberOfFiles": 65536},
        "Umask": 0o077,
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": str(serve.home / "logs" / "launchd.log"),
    }
    return plistlib.dumps(agent)


def _quoted(word: str) -> str:
    """One word of a unit file: quotes keep its spaces, and `%` would name a specifier."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _argument(word: str) -> str:
    """One word of a command line, where `$` would name a variable."""
    return _quoted(word.replace("$", "$$"))
