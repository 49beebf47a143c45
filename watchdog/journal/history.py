"""Who records what becomes of the children: every incarnation, the state of each, and whether the tree is up."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..death import Cause, Death
from ..supervisor import Observer, State
from .records import Incarnation, Interval, Record
from .uptime import DOWN, OFF, TREE, UP

Put = Callable[[Record], None]
Clock = Callable[[], float]


class _States:
    """The intervals of one child, one after the other."""

    def __init__(self, child: str, put: Put) -> None:
        self._child = child
        self._put = put
        self._now: Interval | None = None

    def enter(self, state: str, at: float) -> None:
        if self._now is not None and self._now.state == state:
            return
        self.extend(at)
        self._now = Interval(self._child, since=at, until=at, state=state)
        self._put(self._now)

    def extend(self, at: float) -> None:
        """It has lasted until now."""
        if self._now is not None and at > self._now.until:
            self._now = msgspec.structs.replace(self._now, until=at)
            self._put(self._now)


class History:
    """All children of a tree. `extend` is called every few seconds: what a killed watchdog saw last is known."""

    def __init__(self, put: Put, clock: Clock) -> None:
        self._put = put
        self._clock = clock
        self._tree = _States(TREE, put)
        self._children: dict[str, State] = {}
        self._states: dict[str, _States] = {}
        self._off = False

    def of(self, child: str, identity: Callable[[], Identity], also: Observer) -> ChildHistory:
        """The observer of one more child; what it hears, it tells `also`."""
        self._children[child] = State.STOPPED
        self._states[child] = _States(child, self._put)
        return ChildHistory(child, identity, also, self)

    def extend(self) -> None:
        for states in (self._tree, *self._states.values()):
            states.extend(self._clock())

    def switched_off(self) -> None:
        """Somebody stops the tree: from now on it is not down but off."""
        self._off = True
        self._tree.enter(OFF, self._clock())

    def entered(self, child: str, state: State) -> float:
        """Returns when that was."""
        now = self._clock()
        self._children[child] = state
        self._states[child].enter(state.value, now)
        if not self._off:
            self._tree.enter(UP if set(self._children.values()) == {State.READY} else DOWN, now)
        return now

    def record(self, incarnation: Incarnation) -> None:
        self._put(incarnation)

    def now(self) -> float:
        return self._clock()


class Identity(msgspec.Struct, frozen=True):
    """Which process plays a child at the moment."""

    pid: int | None
    epoch: int | None = None


class ChildHistory:
    """One child's incarnations; the supervisor's `Observer`."""

    def __init__(self, child: str, identity: Callable[[], Identity], also: Observer, history: History) -> None:
        self._child = child
        self._identity = identity
        self._also = also
        self._history = history
        self._incarnation = Incarnation(child, started_at=history.now())

    def entered(self, state: State) -> None:
        at = self._history.entered(self._child, state)
        if state is State.STARTING:
            self._incarnation = Incarnation(self._child, started_at=at)
        self._also.entered(state)

    def restarted(self, cause: Cause) -> None:
        self._also.restarted(cause)

    def became_ready(self, start_s: float) -> None:
        self._note(ready_at=self._history.now())
        self._also.became_ready(start_s)

    def ended(self, death: Death) -> None:
        self._note(
            ended_at=death.at.timestamp(), cause=death.cause.value, reason=death.reason, exit_code=death.exit_code
        )
        self._also.ended(death)

    def _note(self, **found: object) -> None:
        identity = self._identity()
        known = {name: value for name, value in msgspec.structs.asdict(identity).items() if value is not None}
        self._incarnation = msgspec.structs.replace(self._incarnation, **known, **found)
        self._history.record(self._incarnation)
