"""All settings, by section."""

from __future__ import annotations

from .alerts import Alerts
from .engine import Engine
from .section import Section
from .server import Server
from .soak import Soak
from .telemetry import Telemetry
from .watchdog import Watchdog


class Config(Section):
    """Everything that can be set."""

    server: Server = Server()
    """The HTTP API."""
    engine: Engine = Engine()
    """The model and how it is run."""
    watchdog: Watchdog = Watchdog()
    """The parent of the tree."""
    telemetry: Telemetry = Telemetry()
    """What is recorded of each request, and where it goes."""
    alerts: Alerts = Alerts()
    """Who is told about incidents."""
    soak: Soak = Soak()
    """Runs of hours or days with a verdict."""
