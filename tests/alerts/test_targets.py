"""Reading who is told: secrets from files and the environment, and what is said about a target that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stoker.alerts.errors import AlertsError, SecretMissing, TargetUnusable, TemplateUnusable
from stoker.alerts.targets import read_targets
from stoker.config import Alerts, ConfigError, Paths, WebhookTarget, load
from tests.alerts.edges import BEGAN, OVER, edge
from tests.alerts.receivers import KEY

ROOM = "https://chat.example.org/hooks/s3cret"


def settings(**target: Any) -> Alerts:
    return Alerts(targets=(WebhookTarget(**{"name": "ops", "url": ROOM, **target}),))


def test_secrets_come_from_files_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    (target,) = read_targets(
        settings(url="env:ROOM", signing_key=f"file:{tmp_path / 'key'}", bearer_token="env:TOKEN"),
        {"ROOM": ROOM, "TOKEN": "t0ken"},
    )
    assert (target.url, target.bearer_token, target.signer is not None) == (ROOM, "t0ken", True)


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ({"bearer_token": "env:TOKEN"}, SecretMissing, "the variable TOKEN for `bearer_token` of the target ops"),
        ({"bearer_token": "file:/nowhere/token"}, SecretMissing, "/nowhere/token .*cannot be read"),
        ({"signing_key": "env:NO_KEY"}, TargetUnusable, "`signing_key` is no key of Standard Webhooks"),
        ({"url": "env:FAR"}, TargetUnusable, "without TLS; use https://"),
        ({"template": "teams"}, TemplateUnusable, "one of alertmanager, discord, ntfy, pagerduty, slack"),
        ({"template": "ntfy"}, TemplateUnusable, "target ops: nothing stands for 'topic'"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused_with_the_way_out(
    target: dict[str, Any], error: type[AlertsError], words: str
) -> None:
    environment = {"NO_KEY": "whsec_", "FAR": "http://10.0.0.1/s3cret"}
    with pytest.raises(error, match=words) as raised:
        read_targets(settings(**target), environment)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://10.0.0.1/hook", "ftp://example.org", "chat.example.org"])
def test_an_address_in_the_clear_or_of_no_use_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="`url` "):
        settings(url=url)


def test_this_machine_and_a_network_that_is_trusted_may_be_told_without_tls() -> None:
    assert read_targets(settings(url="http://127.0.0.1:9/hook"), {})
    assert read_targets(settings(url="http://10.0.0.1/hook", allow_insecure=True), {})


def test_a_secret_that_is_written_into_the_configuration_is_refused_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "stoker.toml"
    file.write_text(f'[[alerts.targets]]\nname = "ops"\nurl = "{ROOM}"\nsigning_key = "{KEY}"\n')
    with pytest.raises(ConfigError, match="say where the secret is") as raised:
        load(file, Paths(tmp_path))
    assert KEY not in str(raised.value)


def test_two_targets_with_one_name_are_refused() -> None:
    one = WebhookTarget(name="ops", url=ROOM)
    with pytest.raises(ValidationError, match="a different `name`"):
        Alerts(targets=(one, one))


def test_a_target_hears_of_its_severities_and_kinds_alone() -> None:
    (pager,) = read_targets(settings(severities=("critical",), kinds=("crashes", "leak")), {})
    assert pager.wants(edge("i1", BEGAN.status, 1.0, kind="crashes"))
    assert not pager.wants(BEGAN)
    assert not pager.wants(edge("i1", OVER.status, 1.0, kind="canary"))


def test_every_key_is_explained(root: Path = Path(__file__).parent.parent.parent) -> None:
    page = (root / "docs" / "alerts.md").read_text(encoding="utf-8")
    for key in WebhookTarget.model_fields:
        assert re.search(rf"`{key}`", page), key
