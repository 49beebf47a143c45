"""`python -m stoker.service SETTINGS.json`: the service process."""

from __future__ import annotations

import sys

import structlog
import uvloop

from ..config import ServiceProcess
from ..process import EXIT_UNUSABLE, configure_logging, read_settings
from .app import Service
from .auth import KeyFileError

log = structlog.get_logger(__name__)


def main(argv: list[str]) -> int:
    """Serve until told to stop; returns the exit code."""
    settings = read_settings(ServiceProcess, argv)
    configure_logging("service")

    async def serve() -> int:
        try:
            service = Service(settings)
        except KeyFileError as error:
            log.error("unusable", error=str(error))
            return EXIT_UNUSABLE
        return await service.run()

    return uvloop.run(serve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
