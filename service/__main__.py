"""`python -m stoker.service SETTINGS.json`: the service process."""

from __future__ import annotations

import sys

import uvloop

from ..config import ServiceProcess
from ..process import configure_logging, read_settings
from .app import Service


def main(argv: list[str]) -> int:
    """Serve until told to stop; returns the exit code."""
    settings = read_settings(ServiceProcess, argv)
    configure_logging("service")

    async def serve() -> int:
        return await Service(settings).run()

    return uvloop.run(serve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
