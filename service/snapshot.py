"""The ledger at one moment, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.protocol import Heartbeat, Limits


@dataclass(frozen=True)
class Snapshot:
    """The ledger for people, metrics and admission. `limits` are those of the last engine that was ready;
    `engine_down_s` is how long there has been none since, None while there is one or before the first."""

    waiting: int
    waiting_tokens: int
    queued: int
    running: int
    suspended: int
    paused: int
    retry_after_s: int | None
    limits: Limits | None
    engine_down_s: float | None
    heartbeat: Heartbeat | None
    heartbeat_at: float | None
