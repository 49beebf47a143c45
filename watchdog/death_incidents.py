"""Deaths that nobody ordered, as incidents: from the end of an incarnation until the next one is ready."""

from __future__ import annotations

from .death import Cause, Death
from .incidents import Incidents
from .supervisor import Observer, State


class DeathIncidents:
    """One child's; the supervisor's `Observer`. What it hears, it tells `also`."""

    def __init__(self, kind: str, incidents: Incidents, also: Observer) -> None:
        self._kind = kind
        self._incidents = incidents
        self._also = also

    def entered(self, state: State) -> None:
        self._also.entered(state)

    def restarted(self, cause: Cause) -> None:
        self._also.restarted(cause)

    def became_ready(self, start_s: float) -> None:
        self._incidents.end(self._kind)
        self._also.became_ready(start_s)

    def ended(self, death: Death) -> None:
        if death.cause is not Cause.REQUESTED:
            self._incidents.begin(self._kind, death.reason, {"cause": death.cause.value, "exit_code": death.exit_code})
        self._also.ended(death)
