"""The journal as the shelf of webhooks on their way."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog

from ...alerts.delivery import Delivery
from .journal import Journal
from .records import DeliveryRecord

log = structlog.get_logger(__name__)


class JournalShelf:
    """What the courier keeps and finds again; its `Shelf`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        # False says that the database cannot be written now; the journal says so by itself.
        await self._journal.keep([record_of(delivery) for delivery in deliveries])

    async def left(self) -> list[Delivery]:
        found = [delivery_of(record) for record in await self._journal.deliveries_left()]
        return [delivery for delivery in found if delivery is not None]


def record_of(delivery: Delivery) -> DeliveryRecord:
    """As it lies in the database."""
    return DeliveryRecord(
        id=delivery.id,
        incident=delivery.edge.incident,
        target=delivery.target,
        status=delivery.edge.status.value,
        at=delivery.edge.at,
        attempts=delivery.attempts,
        outcome=None if delivery.outcome is None else delivery.outcome.value,
        ended_at=delivery.ended_at,
        error=delivery.error,
        line=msgspec.json.encode(delivery).decode(),
    )


def delivery_of(record: DeliveryRecord) -> Delivery | None:
    """As the outbox has it; None when another version wrote it in words that this one does not know."""
    try:
        return msgspec.json.decode(record.line, type=Delivery)
    except msgspec.MsgspecError as error:
        log.warning("delivery_not_understood", id=record.id, error=str(error))
        return None
