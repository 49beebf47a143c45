"""Incidents as what is told, and the courier with everything that it needs of the tree."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import aiohttp

from ..alerts.courier import Courier, Observer, Shelf
from ..alerts.edge import Edge, Status
from ..alerts.message import Origin
from ..alerts.quiet import Quiet
from ..alerts.targets import read_targets
from ..alerts.webhook import Sender
from ..config import Alerts, Paths
from .journal.records import Incident

Appoint = Callable[[Shelf, Observer], Courier]


def edge_of(incident: Incident) -> Edge:
    """The end that an incident has come to: it began, or it is over."""
    over = incident.closed_at is not None
    return Edge(
        incident=incident.id,
        kind=incident.kind,
        status=Status.RESOLVED if over else Status.FIRING,
        opened_at=incident.opened_at,
        at=incident.opened_at if incident.closed_at is None else incident.closed_at,
        summary=incident.summary,
    )


def origin_of(watchdog_url: str) -> Origin:
    """This machine and the watchdog's port: what tells one endpoint from another in a chat room."""
    return Origin(f"{socket.gethostname()}:{watchdog_url.rpartition(':')[2]}", watchdog_url)


def courier_for(settings: Alerts, paths: Paths, watchdog_url: str, http: aiohttp.ClientSession) -> Appoint:
    """How the courier is made once there is a shelf. Raises `AlertsError` when a target cannot be told anything."""
    targets = read_targets(settings, os.environ)

    def appoint(shelf: Shelf, observer: Observer) -> Courier:
        return Courier(
            targets=targets,
            retry_for_s=settings.retry_for_s,
            origin=origin_of(watchdog_url),
            shelf=shelf,
            send=Sender(http, settings.timeout_s).send,
            quiet=Quiet(paths.quiet, settings.quiet),
            observer=observer,
        )

    return appoint
