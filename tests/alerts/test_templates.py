"""Bodies as Alertmanager and chat rooms want them, checked against what those say about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.alerts.errors import TemplateUnusable
from stoker.alerts.message import NOT_OVER, body, fingerprint
from stoker.alerts.templates import FOLDER, load, names, render
from tests.alerts.edges import BEGAN, OVER
from tests.alerts.receivers import ORIGIN

VALUES = {"topic": "stoker", "routing_key": "R0UTE"}


def rendered(name: str, edge: Any = BEGAN) -> Any:
    return json.loads(render(load(name), edge, ORIGIN, VALUES))


def test_the_body_is_alertmanagers_version_4() -> None:
    told = body(BEGAN, ORIGIN)
    assert set(told) == {
        *("version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels", "commonLabels"),
        *("commonAnnotations", "externalURL", "alerts"),
    }
    assert (told["version"], told["status"]) == ("4", "firing")
    (alert,) = told["alerts"]
    assert set(alert) == {"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint"}
    assert alert["labels"] == {
        "alertname": "StokerLeak",
        "severity": "warning",
        "kind": "leak",
        "instance": "box:8001",
    }
    assert (alert["startsAt"], alert["endsAt"]) == ("1970-01-01T00:01:40.000000Z", NOT_OVER)
    assert alert["annotations"]["runbook_url"] == "http://127.0.0.1:8001/runbooks/StokerLeak"


def test_both_ends_have_what_a_receiver_knows_them_by() -> None:
    began, over = body(BEGAN, ORIGIN), body(OVER, ORIGIN)
    assert over["groupKey"] == began["groupKey"]
    for key in ("fingerprint", "startsAt", "labels"):
        assert over["alerts"][0][key] == began["alerts"][0][key]
    assert over["alerts"][0]["endsAt"] == "1970-01-01T00:02:40.000000Z"


def test_a_fingerprint_depends_on_labels_alone_and_not_on_their_order() -> None:
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"}) != fingerprint({"a": "1b", "": "2"})


def test_slack_gets_one_text() -> None:
    assert rendered("slack") == {
        "text": "*FIRING: StokerLeak*\nthe engine leaks 20 MB/h\n"
        "warning at box:8001 since 1970-01-01T00:01:40.000000Z. "
        "<http://127.0.0.1:8001/runbooks/StokerLeak|What to do>"
    }


def test_discord_gets_an_embed_whose_color_is_a_number_and_pings_nobody() -> None:
    told = rendered("discord")
    assert told["embeds"][0]["color"] == 15105570
    assert rendered("discord", OVER)["embeds"][0]["color"] == 3066993
    assert told["allowed_mentions"] == {"parse": []}


def test_ntfy_gets_a_topic_and_a_priority_from_1_to_5() -> None:
    assert (rendered("ntfy")["topic"], rendered("ntfy")["priority"]) == ("stoker", 4)


def test_pagerduty_gets_events_that_belong_together() -> None:
    began, over = rendered("pagerduty"), rendered("pagerduty", OVER)
    assert (began["event_action"], over["event_action"]) == ("trigger", "resolve")
    assert began["dedup_key"] == over["dedup_key"] == "i1"
    assert began["payload"]["severity"] in {"critical", "error", "warning", "info"}


def test_a_template_of_ones_own_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"say": "$kind is $status", "price": "5 $$", "n": 3}')
    assert rendered(str(tmp_path / "own.json")) == {"say": "leak is firing", "price": "5 $", "n": 3}


def test_a_template_that_is_no_json_or_names_what_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"say": "$weather"}')
    with pytest.raises(TemplateUnusable, match="nothing stands for 'weather'"):
        rendered(str(tmp_path / "own.json"))
    (tmp_path / "own.json").write_text("say it")
    with pytest.raises(TemplateUnusable, match=r"own\.json cannot be used"):
        rendered(str(tmp_path / "own.json"))


def test_what_a_summary_says_cannot_break_out_of_a_template() -> None:
    nasty = type(BEGAN)(**{**{f: getattr(BEGAN, f) for f in BEGAN.__struct_fields__}, "summary": '", "x": "$topic'})
    assert rendered("ntfy", nasty)["message"] == '", "x": "$topic'


def test_every_name_is_explained() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "alerts.md").read_text(encoding="utf-8")
    assert not [name for name in names(BEGAN, ORIGIN) if f"`${name}`" not in page]
    assert not [file.stem for file in FOLDER.glob("*.json") if f"`{file.stem}`" not in page]
