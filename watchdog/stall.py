"""Whether an engine that should be working is: one detector an incarnation; pure, every time is passed in.

A ping that a healthy thread answers proves nothing about the thread that steps
(https://github.com/ml-explore/mlx-lm/issues/1505: completions hung while `/v1/models` answered), so what counts is
finished steps while work is pending, and beside them the heartbeats themselves.

Time is counted here, in small pieces, and never taken from the engine's clock: when this process, or the whole
machine, was frozen for an hour, nothing has stalled for an hour.
"""

from __future__ import annotations

from collections import deque

from ..engine.protocol import Heartbeat, Phase

MAX_PIECE_S = 1.0
"""More than this between two looks means that we were not looking, and is not held against the engine."""
UNMEASURED_STEPS = 3
UNMEASURED_FACTOR = 3.0
"""While it loads and in its first steps, pages come from the disk, kernels are compiled, and its pace is unknown."""
PATIENCE = 4.0
"""A step may take this many times what the pace so far promises."""
RECENT_S = 60.0
FIRST_HEARTBEAT_S = 30.0
"""A new process has at least this long to import what it needs and to say its first word."""
MISSED_HEARTBEATS = 8


class Pace:
    """How long steps take, from the counters of consecutive heartbeats."""

    def __init__(self) -> None:
        self._longest: deque[tuple[float, float]] = deque()
        self._token_s: float | None = None

    def learn(self, before: Heartbeat, after: Heartbeat, now: float) -> None:
        steps, tokens = after.steps - before.steps, after.computed_tokens - before.computed_tokens
        if steps <= 0:
            return
        busy_s = after.busy_s - before.busy_s
        self._note_step(busy_s / steps, now)
        if tokens > 0:
            # The best seen is the price of a token in a large step, where the fixed cost of a step is shared by many.
            self._token_s = min(busy_s / tokens, self._token_s or busy_s / tokens)

    def step_s(self, tokens: int, now: float) -> float:
        """What a step of `tokens` may be expected to take at most; 0 when nothing is known."""
        while self._longest and self._longest[0][0] < now - RECENT_S:
            self._longest.popleft()
        recent = self._longest[0][1] if self._longest else 0.0
        return max(recent, tokens * (self._token_s or 0.0))

    def _note_step(self, seconds: float, now: float) -> None:
        """Keep the longest recent step in front; one that is followed by a longer one will never be asked for."""
        while self._longest and self._longest[-1][1] <= seconds:
            self._longest.pop()
        self._longest.append((now, seconds))


class StallDetector:
    """`heard` takes every heartbeat of one incarnation, `check` is asked several times a second."""

    def __init__(self, stall_after_s: float, heartbeat_s: float, warm: bool = False) -> None:
        """`warm`: an incarnation before this one has done its first steps, so that nothing is new to this machine."""
        self._stall_after_s = stall_after_s
        self._silence_after_s = max(stall_after_s, MISSED_HEARTBEATS * heartbeat_s)
        self._first_steps_factor = 1.0 if warm else UNMEASURED_FACTOR
        self._pace = Pace()
        self._beat: Heartbeat | None = None
        self._ready = False
        self._looked_at: float | None = None
        self._silent_s = 0.0
        self._stuck_s = 0.0

    @property
    def measured(self) -> bool:
        """Whether the engine has done its first steps."""
        return self._beat is not None and self._beat.steps >= UNMEASURED_STEPS

    def step_bound_s(self, now: float) -> float | None:
        """How long the running step may take; None before the first heartbeat."""
        return None if self._beat is None else self._step_bound_s(self._beat, now)

    def became_ready(self, now: float) -> None:
        """It has said so itself: what it imports and loads is behind it, and excuses no silence any more."""
        self._let_pass(now)
        self._silent_s = 0.0
        self._ready = True

    def heard(self, beat: Heartbeat, now: float) -> None:
        self._let_pass(now)
        self._silent_s = 0.0
        if self._beat is None or beat.steps != self._beat.steps or not _pending(beat):
            self._stuck_s = 0.0
        if self._beat is not None:
            self._pace.learn(self._beat, beat, now)
        self._beat = beat

    def check(self, now: float) -> str | None:
        """Why the engine must be replaced, for people; None while it is well."""
        self._let_pass(now)
        silence_bound_s = self._silence_bound_s()
        if self._silent_s > silence_bound_s:
            what = "heartbeat" if self._beat is not None else "first heartbeat"
            return f"stalled: no {what} for {self._silent_s:.1f} s (bound {silence_bound_s:.1f} s)"
        if self._beat is None:
            return None
        bound_s = self._step_bound_s(self._beat, now)
        if self._stuck_s > bound_s:
            work = f"{self._beat.running} requests running and {self._beat.waiting} waiting"
            return f"stalled: no step for {self._stuck_s:.1f} s with {work} (bound {bound_s:.1f} s)"
        return None

    def _silence_bound_s(self) -> float:
        if self._ready or (self._beat is not None and self._beat.phase is Phase.READY):
            return self._silence_after_s
        patient_s = UNMEASURED_FACTOR * self._silence_after_s
        return patient_s if self._beat is not None else max(patient_s, FIRST_HEARTBEAT_S)

    def _step_bound_s(self, beat: Heartbeat, now: float) -> float:
        floor_s = self._stall_after_s * (1.0 if self.measured else self._first_steps_factor)
        return max(floor_s, PATIENCE * self._pace.step_s(beat.step_tokens, now))

    def _let_pass(self, now: float) -> None:
        piece_s = 0.0 if self._looked_at is None else min(now - self._looked_at, MAX_PIECE_S)
        self._silent_s += piece_s
        if self._beat is not None and _pending(self._beat):
            self._stuck_s += piece_s
        self._looked_at = now


def _pending(beat: Heartbeat) -> bool:
    return beat.running + beat.waiting > 0
