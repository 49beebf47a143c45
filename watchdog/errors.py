"""What can stop the watchdog or a command that talks to it, one class a cause; each message is one sentence."""

from __future__ import annotations

from http import HTTPStatus


class WatchdogError(Exception):
    """Base of every error that this folder raises on purpose."""


class HomeInUse(WatchdogError):
    """Another `stoker serve` holds this `$STOKER_HOME`."""


class HomeUnusable(WatchdogError):
    """`$STOKER_HOME` cannot be created, written or trusted."""


class AddressUnavailable(WatchdogError):
    """A host and port cannot be listened on."""


class ChildUnusable(WatchdogError):
    """A child said, before the tree was ever ready, that no restart will help it."""


class NotRunning(WatchdogError):
    """No tree runs on this `$STOKER_HOME`."""


class Refused(WatchdogError):
    """The watchdog answered a command with an error."""


class BadRecording(WatchdogError):
    """A file of samples cannot be read as one."""


class NoInitSystem(WatchdogError):
    """This machine, or this account, has no init system that the tree could be handed to."""


class InitSystemFailed(WatchdogError):
    """The init system could not be told."""


class EndpointSilent(WatchdogError):
    """Nothing answers at an endpoint's address, or the answer broke off."""


class NotAnEndpoint(WatchdogError):
    """What answers at an endpoint's address is something else."""


class EndpointRefuses(WatchdogError):
    """An endpoint answered with an HTTP error."""

    def __init__(self, url: str, code: int, body: bytes) -> None:
        said = body[:200].decode(errors="replace")
        way_out = "give a key with --key or in $STOKER_API_KEY" if code == HTTPStatus.UNAUTHORIZED else said
        super().__init__(f"{url} answered {code}: {way_out}")
        self.code = code


class SettingsNotWritten(WatchdogError):
    """An agent's file of settings was left as it is."""
