"""What can be wrong with who is to be told, one class a cause; each message is one sentence, without any secret."""

from __future__ import annotations


class AlertsError(Exception):
    """Base of every error that this folder raises on purpose."""


class SecretMissing(AlertsError):
    """A file or a variable that should hold a secret cannot be read, or is empty."""


class TargetUnusable(AlertsError):
    """A target cannot be told anything, as it is configured."""


class TemplateUnusable(AlertsError):
    """A template cannot be read, or leaves something open."""


class QuietUnusable(AlertsError):
    """The file that says how long to be quiet cannot be written."""
