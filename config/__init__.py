"""The one configuration: a TOML file, read once at the door into frozen settings.

One module a part of it: `server`, `engine`, `watchdog`, `telemetry`, `alerts`, `soak`; `everything` joins them,
`section` is what they have in common. `reading` finds, parses and checks the file; `writing` makes the commented
example, and `reference` the page in `docs`. `paths` says where everything under `$STOKER_HOME` lives, `children` what
the processes are told.
"""

from .alerts import Alerts, QuietPeriod, WebhookTarget, url_problem
from .children import EngineEndpoint, EngineProcess, ServiceProcess, SoakProcess
from .engine import Engine, Fault, Simulated
from .everything import Config
from .paths import MAX_SOCKET_PATH_BYTES, Paths
from .reading import known_keys, load
from .reference import reference
from .section import ConfigError, Count, Port, Seconds, Section, Share
from .server import Canonical, Server
from .soak import CHAOS_KINDS, CHAOS_RULE, Gates, Scheduled, Soak, duration_s
from .telemetry import Telemetry
from .watchdog import Canary, Journal, Restart, Sensors, Shedding, Watchdog
from .writing import example

__all__ = [
    "CHAOS_KINDS",
    "CHAOS_RULE",
    "MAX_SOCKET_PATH_BYTES",
    "Alerts",
    "Canary",
    "Canonical",
    "Config",
    "ConfigError",
    "Count",
    "Engine",
    "EngineEndpoint",
    "EngineProcess",
    "Fault",
    "Gates",
    "Journal",
    "Paths",
    "Port",
    "QuietPeriod",
    "Restart",
    "Scheduled",
    "Seconds",
    "Section",
    "Sensors",
    "Server",
    "ServiceProcess",
    "Share",
    "Shedding",
    "Simulated",
    "Soak",
    "SoakProcess",
    "Telemetry",
    "Watchdog",
    "WebhookTarget",
    "duration_s",
    "example",
    "known_keys",
    "load",
    "reference",
    "url_problem",
]
