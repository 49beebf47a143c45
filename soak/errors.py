"""What can be wrong before or instead of a run; the message is one sentence for a person."""

from __future__ import annotations


class SoakError(Exception):
    """Base: the run cannot be made, or cannot go on."""


class UnknownWorkload(SoakError):
    """No workload has that name."""


class TargetUnusable(SoakError):
    """The target does not answer, or not as its API says."""
