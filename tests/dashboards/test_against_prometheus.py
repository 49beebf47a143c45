"""Every query of every board finds data in a real Prometheus that scraped a tree under load and through a kill."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from stoker.dashboards.boards import BOARDS
from stoker.dashboards.boards.requests import REQUESTS
from stoker.dashboards.boards.soak import SOAK
from stoker.dashboards.check import Outcome, Prometheus, PrometheusUnreachable, check
from tests.dashboards.mixed_run import SOAK_RUN, config, mixed_load, targets_of
from tests.dashboards.prometheus_server import SCRAPE_S, ask, exemplars, prometheus_scraping
from tests.e2e.conftest import ServeTree, serve_tree, tree
from tests.e2e.running import RunningTree, eventually, stoker
from tests.pictures.answers import Source, answers_to

__all__ = ["serve_tree", "tree"]

LOAD_S = 18.0


@pytest.mark.timeout(120)
async def test_no_query_fails_or_is_empty_without_a_reason(
    serve_tree: ServeTree, tiny_model: Path, tmp_path: Path
) -> None:
    tree = await asyncio.to_thread(serve_tree, config(tiny_model))
    with prometheus_scraping(tmp_path, targets_of(tree)) as url:
        await mixed_load(tree, LOAD_S)
        await asyncio.sleep(2 * SCRAPE_S)
        answers = await asyncio.to_thread(lambda: list(check(BOARDS, Prometheus(url, LOAD_S + 5, 4 * SCRAPE_S))))
        wrong = [answer for answer in answers if answer.outcome in (Outcome.EMPTY, Outcome.FAILED)]
        assert not wrong, "\n".join(
            f"{each.outcome} {each.asked.board} / {each.asked.place}: {each.asked.expr} {each.why}" for each in wrong
        )
        # What is expected to be absent is so for this host; the rest of a live run is there.
        assert sum(answer.outcome is Outcome.DATA for answer in answers) > len(answers) / 2
        told = await asyncio.to_thread(stoker, tree.home, "dashboards", "check", "--prometheus", url, "--minutes", "1")
        assert told.returncode == 0, told.stdout
        (restarts,) = ask(url, 'sum(stoker_engine_restarts_total{reason="killed"})')
        assert restarts["value"][1] == "1"
        for happened in ("stoker_requests_cancelled_total", 'stoker_requests_shed_total{reason="queue_full"}'):
            assert float(ask(url, f"sum({happened})")[0]["value"][1]) > 0, happened
        (requests,) = (panel.queries[0].expr for panel in SOAK.panels if panel.title == "Requests")
        for run, there in ((SOAK_RUN, True), ("another", False)):
            # Much has been asked since the run.
            expr = Prometheus(url, 10 * LOAD_S, 4 * SCRAPE_S).filled_in(requests.replace("$run", run))
            assert bool(ask(url, expr)) == there, expr
        drawn = Source(url, time.time() - LOAD_S, time.time())
        for board in BOARDS:
            answered = await asyncio.to_thread(answers_to, board, drawn)
            assert len(answered) == len(list(board.panels))
        assert any(each["exemplars"] for each in await asyncio.to_thread(answers_to, REQUESTS, drawn))
        traced = exemplars(url, "stoker_time_to_first_token_seconds_bucket", time.time() - 600, time.time())
        assert any("trace_id" in exemplar["labels"] for series in traced for exemplar in series["exemplars"])


@pytest.mark.timeout(60)
async def test_prometheus_finds_both_processes_by_the_file_that_the_stack_mounts(
    tree: RunningTree, tmp_path: Path
) -> None:
    with prometheus_scraping(tmp_path, targets_of(tree), scrape_s=None) as url:
        await eventually(lambda: len(ask(url, 'up{job=~"stoker-.*"} == 1')) == 2)


def test_an_address_without_a_prometheus_is_said() -> None:
    with pytest.raises(PrometheusUnreachable, match="--prometheus"):
        list(check(BOARDS, Prometheus("http://127.0.0.1:9", 60, 4)))
