"""Settings of who is told about incidents, how, and when not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from .section import Seconds, Section
from .server import is_loopback

SECRET_ORIGINS = ("file:", "env:")


class WebhookTarget(Section):
    """Somebody who is told by HTTP. Secrets are never written here but named: `file:/absolute/path` or `env:NAME`."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    """What it is called by commands and in the log: small letters, digits and `-`."""
    url: str
    """`https://…`, or `http://…` on this machine; where the address itself is a secret, `file:` or `env:`."""
    template: str = "alertmanager"
    """The body: `alertmanager` (version 4 of its webhooks), `slack`, `discord`, `ntfy`, `pagerduty`, or the absolute
    path of a JSON file as docs/alerts.md describes it."""
    severities: tuple[Literal["critical", "warning", "info"], ...] = ("critical", "warning")
    """It hears of these."""
    kinds: tuple[str, ...] = ()
    """It hears only of these kinds of incidents; empty, of all."""
    signing_key: str | None = None
    """Where the key is that signs each body by the Standard Webhooks scheme (`whsec_…`); absent, none is signed."""
    bearer_token: str | None = None
    """Where the token is that is shown as `Authorization: Bearer`; absent, none is."""
    values: dict[str, str] = Field(default_factory=dict)
    """What a template leaves open, such as ntfy's `topic` or PagerDuty's `routing_key`; a value may be `file:` or
    `env:`."""
    allow_insecure: bool = False
    """Send to another machine without TLS; for networks that keep strangers out themselves."""

    @field_validator("signing_key", "bearer_token")
    @classmethod
    def _named_not_written(cls, secret: str | None) -> str | None:
        if secret is not None and not secret.startswith(SECRET_ORIGINS):
            # The value itself must not be repeated in an error message.
            raise PydanticCustomError("bare_secret", "Input should say where the secret is: `file:/path` or `env:NAME`")
        return secret

    @field_validator("template")
    @classmethod
    def _known_or_found_from_anywhere(cls, template: str) -> str:
        if "/" in template and not Path(template).expanduser().is_absolute():
            raise PydanticCustomError("relative_path", "Input should be a template's name or an absolute path")
        return template

    @model_validator(mode="after")
    def _not_in_the_clear(self) -> WebhookTarget:
        if not self.url.startswith(SECRET_ORIGINS) and (problem := url_problem(self.url, self.allow_insecure)):
            raise PydanticCustomError("bad_url", "{problem}", {"problem": problem})
        return self


class QuietPeriod(Section):
    """A time that comes again and again in which nobody is told."""

    cron: str
    """When it begins, as crontab writes it, in this machine's time: `0 3 * * sun`."""
    duration_s: Seconds
    """How long it lasts."""

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, cron: str) -> str:
        from apscheduler.triggers.cron import CronTrigger

        try:
            CronTrigger.from_crontab(cron)
        except ValueError as error:
            raise PydanticCustomError(
                "bad_cron", "Input is no crontab expression: {why}", {"why": str(error)}
            ) from error
        return cron


class Alerts(Section):
    """Who is told about incidents; docs/alerts.md has examples. Nobody, unless there are targets."""

    targets: tuple[WebhookTarget, ...] = ()
    """Those who are told, each a table `[[alerts.targets]]`."""
    quiet: tuple[QuietPeriod, ...] = ()
    """When nobody is told, each a table `[[alerts.quiet]]`; what is still wrong afterwards is told then."""
    timeout_s: Seconds = 10.0
    """How long a receiver may take to answer."""
    retry_for_s: Seconds = 86400.0
    """For so long what was not received is sent again, ever more seldom."""

    @field_validator("targets")
    @classmethod
    def _told_apart(cls, targets: tuple[WebhookTarget, ...]) -> tuple[WebhookTarget, ...]:
        if len({target.name for target in targets}) < len(targets):
            raise PydanticCustomError("same_name", "Input should have a different `name` for each target")
        return targets


def url_problem(url: str, allow_insecure: bool) -> str | None:
    """Why nothing may be sent there; None when it may. Does not repeat the address, which can be a secret."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "`url` should begin with https:// or http:// and name a host"
    if parts.scheme == "http" and not allow_insecure and not is_loopback(parts.hostname):
        return "`url` leads to another machine without TLS; use https://, or set `allow_insecure`"
    return None
