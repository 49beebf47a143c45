"""Who is told, ready to be told: secrets read, templates loaded and tried, so that a mistake shows at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from ..config import Alerts, WebhookTarget, url_problem
from .edge import Edge, Status
from .errors import SecretMissing, TargetUnusable, TemplateUnusable
from .message import Origin
from .severity import Severity
from .templates import Template, load, render


@dataclass(frozen=True)
class Target:
    """One receiver. What is secret is left out of its representation."""

    name: str
    url: str = field(repr=False)
    template: Template | None
    severities: frozenset[Severity]
    kinds: frozenset[str]
    signer: Webhook | None = field(repr=False)
    bearer_token: str | None = field(repr=False)
    values: dict[str, str] = field(repr=False)

    def wants(self, edge: Edge) -> bool:
        """Whether it hears of such an edge."""
        return edge.severity in self.severities and (not self.kinds or edge.kind in self.kinds)

    def body(self, edge: Edge, origin: Origin) -> bytes:
        """What it is sent."""
        return render(self.template, edge, origin, self.values)


def read_targets(settings: Alerts, environment: Mapping[str, str]) -> tuple[Target, ...]:
    """All of them. Raises `SecretMissing`, `TargetUnusable` or `TemplateUnusable`."""
    return tuple(_target(each, environment) for each in settings.targets)


def _target(settings: WebhookTarget, environment: Mapping[str, str]) -> Target:
    def secret(key: str, place: str) -> str:
        return _secret(place, f"`{key}` of the target {settings.name}", environment)

    url = secret("url", settings.url)
    if (problem := url_problem(url, settings.allow_insecure)) is not None:
        raise TargetUnusable(f"target {settings.name}: {problem}")
    target = Target(
        name=settings.name,
        url=url,
        template=load(settings.template),
        severities=frozenset(Severity(each) for each in settings.severities),
        kinds=frozenset(settings.kinds),
        signer=_signer(settings.name, secret("signing_key", settings.signing_key)) if settings.signing_key else None,
        bearer_token=secret("bearer_token", settings.bearer_token) if settings.bearer_token else None,
        values={key: secret(f"values.{key}", value) for key, value in settings.values.items()},
    )
    try:
        target.body(Edge("try", "leak", Status.FIRING, 0.0, 0.0, "try"), Origin("try", "http://127.0.0.1"))
    except TemplateUnusable as error:
        raise TemplateUnusable(f"target {settings.name}: {error}") from error
    return target


def _secret(place: str, what: str, environment: Mapping[str, str]) -> str:
    """What stands at `file:…` or `env:…`; anything else stands for itself."""
    origin, _, name = place.partition(":")
    if origin == "env":
        if value := environment.get(name, "").strip():
            return value
        raise SecretMissing(f"the variable {name} for {what} is not set or empty; set it where `stoker serve` starts")
    if origin != "file":
        return place
    path = Path(name).expanduser()
    try:
        value = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretMissing(
            f"the file {path} for {what} cannot be read: {error}; write it, or mend its rights"
        ) from error
    if not value:
        raise SecretMissing(f"the file {path} for {what} is empty; write the secret into it")
    return value


def _signer(name: str, key: str) -> Webhook:
    try:
        return Webhook(key)
    except (ValueError, EmptyWebhookSecretError) as error:
        raise TargetUnusable(
            f"target {name}: `signing_key` is no key of Standard Webhooks; it is `whsec_` and then base64, as "
            '`echo "whsec_$(openssl rand -base64 32)"` makes one'
        ) from error
