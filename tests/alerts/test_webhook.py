"""What a receiver's answer means, and that what is sent can be verified by the library that receivers use."""

from __future__ import annotations

from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from stoker.alerts.delivery import Failed, Received, Result, Unwanted
from stoker.alerts.targets import Target
from stoker.alerts.webhook import Sender, judged, seconds_until
from tests.alerts.edges import BEGAN
from tests.alerts.receivers import KEY, ORIGIN, receiving, target_at

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "retry_after", "result"),
    [
        (200, None, Received()),
        (204, None, Received()),
        (302, None, Unwanted("HTTP status 302: no")),
        (400, None, Unwanted("HTTP status 400: no")),
        (404, None, Unwanted("HTTP status 404: no")),
        (408, None, Failed("HTTP status 408: no")),
        (410, None, Unwanted("HTTP status 410: no", gone=True)),
        (429, "120", Failed("HTTP status 429: no", 120.0)),
        (429, "Sat, 31 Jan 2026 12:01:00 GMT", Failed("HTTP status 429: no", 60.0)),
        (500, None, Failed("HTTP status 500: no")),
        (503, "soon", Failed("HTTP status 503: no")),
    ],
)
def test_an_answer_is_success_failure_for_now_or_failure_for_good(
    status: int, retry_after: str | None, result: Result
) -> None:
    assert judged(status, retry_after, "no\n", NOW) == result


def test_retry_after_in_the_past_is_now() -> None:
    assert seconds_until("Sat, 31 Jan 2026 11:00:00 GMT", NOW) == 0.0
    assert seconds_until("Sat, 99 Jan 2026 11:00:00 GMT", NOW) is None


async def test_what_is_sent_is_signed_and_carries_the_id_and_the_token() -> None:
    async with receiving() as receiver, aiohttp.ClientSession() as http:
        target = target_at(receiver.url)
        body = target.body(BEGAN, ORIGIN)
        assert await Sender(http, 5.0).send(target, "stoker_i1_firing_ops", body) == Received()
    (got,) = receiver.got
    assert got.id == "stoker_i1_firing_ops"
    assert got.headers["authorization"] == "Bearer t0ken"
    assert Webhook(KEY).verify(got.raw, got.headers) == got.body
    with pytest.raises(WebhookVerificationError):
        Webhook(KEY).verify(got.raw.replace(b"leak", b"lack"), got.headers)


async def test_a_redirect_is_not_followed() -> None:
    def elsewhere(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/hook"})

    async with receiving(elsewhere) as receiver, aiohttp.ClientSession() as http:
        assert isinstance(await sent(http, target_at(receiver.url)), Unwanted)
    assert len(receiver.got) == 1


async def test_nobody_there_and_no_answer_are_failures_that_do_not_repeat_the_address() -> None:
    async with receiving() as receiver:
        url = receiver.url
    async with aiohttp.ClientSession() as http:
        result = await sent(http, target_at(url))
    assert isinstance(result, Failed) and url not in result.why and "127.0.0.1" not in result.why


async def test_a_connection_that_is_reset_after_the_body_is_a_failure() -> None:
    def reset(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with receiving(reset) as receiver, aiohttp.ClientSession() as http:
        assert isinstance(await sent(http, target_at(receiver.url)), Failed)
    assert len(receiver.got) == 1


def test_nothing_secret_is_in_a_targets_representation() -> None:
    shown = repr(target_at("https://chat.example.org/hooks/s3cret"))
    assert not [word for word in ("s3cret", "t0ken", "whsec", "secret value") if word in shown]


async def sent(http: aiohttp.ClientSession, target: Target) -> Result:
    return await Sender(http, 5.0).send(target, "id", b"{}")
