"""What can be wrong before or instead of a run; the message is one sentence for a person."""

from __future__ import annotations


class SoakError(Exception):
    """Base: the run cannot be made, or cannot go on."""


class UnknownWorkload(SoakError):
    """No workload has that name."""


class TargetUnusable(SoakError):
    """The target does not answer, or not as its API says."""


class StacksUnusable(SoakError):
    """What shall be compared is not said in a way that can be done."""


class StackFailed(SoakError):
    """A server that was to be compared did not start, or not in time."""


class UnknownPrecision(SoakError):
    """No precision has that name."""


class QualityUnknown(SoakError):
    """What a precision costs could not be measured."""


class BadPlan(SoakError):
    """A run cannot be as it was asked for."""


class NoSuchRun(SoakError):
    """No run, or more than one, has that name."""


class AlreadyRunning(SoakError):
    """Another process runs a soak on this `$STOKER_HOME`."""


class NothingToReport(SoakError):
    """A run has no intervals to draw."""


class TraceUnusable(SoakError):
    """A file of recorded traffic cannot be played."""
