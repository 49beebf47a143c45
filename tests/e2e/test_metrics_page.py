"""The page of all metrics is what the code declares, and a running tree exports nothing that it does not have."""

from __future__ import annotations

from pathlib import Path

from stoker.watchdog.metrics_page import Row, page, service_rows, watchdog_rows
from tests.e2e.chatting import ask, chat_body
from tests.e2e.running import RunningTree, eventually, exported

PAGE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"


def test_the_page_is_what_the_code_declares() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew with `stoker metrics > docs/metrics.md`"


def test_every_name_has_the_prefix_and_a_base_unit() -> None:
    for row in (*service_rows(), *watchdog_rows()):
        assert row.name.startswith("stoker_")
        assert not row.name.endswith(("_ms", "_milliseconds", "_mb", "_created"))
        assert row.help


def names(rows: list[Row]) -> set[str]:
    return {row.name for row in rows}


async def test_a_running_tree_exports_what_is_declared_and_nothing_else(tree: RunningTree) -> None:
    await ask(tree.api, chat_body("Tell me a story.", max_tokens=4))
    declared = names(service_rows())
    # The simulated engine has no tiers and drafts nothing.
    not_here = {
        "stoker_prefix_cache_evictions_total",
        "stoker_speculative_tokens_total",
    }
    # The last heartbeat may be from before the request.
    await eventually(lambda: exported(tree.api) == declared - not_here)
    # What a detector says comes once it has seen enough; a host may lack sensors.
    assert exported(tree.client.serving.watchdog) <= names(watchdog_rows())
