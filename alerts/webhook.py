"""One POST to one target, signed, and what came of it.

The signature is that of Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp

from .. import __version__
from .delivery import Failed, Received, Result, Unwanted
from .targets import Target

LATER = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""The refusals that time may mend; the others are about what was sent, and would come again."""
MAX_SHOWN = 200


class Sender:
    """Sends once; whatever goes wrong is the result, and nothing is raised but cancellation."""

    def __init__(self, http: aiohttp.ClientSession, timeout_s: float) -> None:
        self._http = http
        self._timeout_s = timeout_s

    async def send(self, target: Target, message_id: str, body: bytes) -> Result:
        """One message to one target. A redirect is not followed: it could lead anywhere."""
        now = datetime.now(UTC)
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        headers = headers_of(target, message_id, body, now)
        try:
            async with self._http.post(
                target.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                shown = (await response.content.read(MAX_SHOWN)).decode(errors="replace")
                return judged(response.status, response.headers.get("Retry-After"), shown, now)
        except TimeoutError:
            return Failed(f"no answer within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The message may repeat the address, which can be a secret.
            return Failed(type(error).__name__)


def headers_of(target: Target, message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    """Signed anew at each attempt, since a receiver refuses old timestamps; the id stays."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"stoker/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
    }
    if target.signer is not None:
        headers["webhook-signature"] = target.signer.sign(message_id, now, body.decode())
    if target.bearer_token is not None:
        headers["Authorization"] = f"Bearer {target.bearer_token}"
    return headers


def judged(status: int, retry_after: str | None, said: str, now: datetime) -> Result:
    """What an answer means. Pure."""
    why = f"HTTP status {status}" + (f": {_one_line(said)}" if said.strip() else "")
    if 200 <= status < 300:
        return Received()
    if status == HTTPStatus.GONE:
        return Unwanted(why, gone=True)
    if status in LATER or status >= 500:
        return Failed(why, None if retry_after is None else seconds_until(retry_after, now))
    return Unwanted(why)


def seconds_until(retry_after: str, now: datetime) -> float | None:
    """`Retry-After` in seconds: it is a number of them or a date (RFC 9110, 10.2.3); None when it is neither."""
    if re.fullmatch(r"\d{1,9}", retry_after.strip()):
        return float(retry_after)
    try:
        when = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
