"""How long a request may wait, for an engine or for its reader, and what is said when that is over. Pure."""

from __future__ import annotations

from ..config import Server
from .entry import Entry
from .errors import EngineUnavailable, QueueTimeout, ServiceError, SlowReader


def overdue(
    entry: Entry, now: float, server: Server, engine_ready: bool, retry_after_s: int | None
) -> ServiceError | None:
    """Why it has waited for too long, None when it has not; `now` is on the ledger's clock in seconds."""
    if entry.unread_since is not None and now - entry.unread_since >= server.slow_reader_deadline_s:
        unread = f"nothing of this stream was read for {server.slow_reader_deadline_s:g} s"
        return SlowReader(f"{unread}; read faster, or ask for less")
    patience_s = server.queue_deadline_s if entry.lost_at is None else server.resume_deadline_s
    if entry.waits_since is None or now - entry.waits_since < patience_s:
        return None
    if not engine_ready:
        return EngineUnavailable(f"no engine came back within {patience_s:g} s; send the request again")
    message = (
        f"the engine had no place for this request within {patience_s:g} s; send it again when there is less to do"
    )
    return QueueTimeout(message, retry_after_s=retry_after_s)
