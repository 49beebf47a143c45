"""The service's own word about itself, asked over HTTP: how late its event loop runs, and how many requests failed."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
import msgspec

TIMEOUT_S = 2.0


class Vitals(msgspec.Struct, frozen=True):
    """What `GET /internal/vitals` says; counts are since the service's start."""

    loop_lag_s: float
    requests_total: int
    errors_total: int


class ServiceSensor:
    """The one service."""

    def __init__(self, url: Callable[[], str], admin_token: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {admin_token}"}
        self._http = http

    async def read(self) -> Vitals | None:
        """None when it does not answer in time."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with self._http.get(
                f"{self._url()}/internal/vitals", headers=self._headers, timeout=timeout
            ) as response:
                body = await response.read()
                return msgspec.json.decode(body, type=Vitals) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
            return None
