"""The status page in a real browser: what it shows of a tree that is killed, drained, or new."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import PATIENCE_MS, axe_violations, chromium, paint_and_updates_ms, quiet_page
from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED, RunningTree, stoker

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SLOW_START = SIMULATED + "[engine.simulated]\nload_s = 2.0\nstep_s = 0.02\n"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTree]:
    """One tree, which has answered one request, for all tests that only look."""
    tree = RunningTree(tmp_path_factory.mktemp("home"))
    tree.start()
    answered = stoker(tree.home, "connect", "openai")
    assert answered.returncode == 0, answered.stderr
    yield tree
    assert tree.stop() == 0


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with quiet_page(browser) as page:
        yield page


def token(tree: RunningTree) -> str:
    return tree.paths.admin_token.read_text().strip()


def title(page: Page, text: str) -> None:
    expect(page.locator("#state-title")).to_contain_text(text, timeout=PATIENCE_MS)


def test_a_kill_and_the_recovery_are_seen(serve_tree: ServeTree, page: Page) -> None:
    tree = serve_tree(SLOW_START)
    page.goto(tree.api)
    title(page, "Up")
    expect(page.locator("#empty")).to_be_visible()
    expect(page.locator("#curl")).to_contain_text(f"{tree.api}/v1/chat/completions")
    os.kill(tree.engine().pid or 0, signal.SIGKILL)
    title(page, "Recovering")
    expect(page.locator("#state-text")).to_contain_text("SIGKILL")
    title(page, "Up")
    expect(page.locator("#incidents")).to_contain_text("engine death", timeout=PATIENCE_MS)
    expect(page.locator("#incidents-count")).to_have_text(re.compile("1 incident$"))


def test_the_newest_request_opens_its_waterfall(looked_at: RunningTree, page: Page) -> None:
    page.goto(looked_at.api)
    title(page, "Up")
    row = page.locator("tr.request")
    expect(row).to_have_count(1)
    toggle = row.get_by_role("button")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    for part in ("queue", "prefill", "decode"):
        expect(page.locator(".waterfall")).to_contain_text(part)
    page.keyboard.press("Enter")
    expect(page.locator(".waterfall")).to_be_hidden()


def test_the_ribbon_tells_each_half_hour_to_the_keyboard(looked_at: RunningTree, page: Page) -> None:
    page.goto(looked_at.api)
    slider = page.get_by_role("slider", name="The last 72 hours")
    slider.focus()
    expect(slider).to_have_attribute("aria-valuetext", re.compile("engine started 1 time"))
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuenow", "0")
    expect(page.locator("#ribbon-text")).to_contain_text("nothing is known")


def test_the_operator_restarts_drains_and_resumes(tree: RunningTree, page: Page) -> None:
    epoch = tree.engine().epoch
    page.goto(tree.api)
    page.get_by_role("button", name="Operate").click()
    page.locator("#login-token").fill("a guess")
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#operator-said")).to_have_text("That is not the token of this server.")
    page.locator("#login-token").fill(token(tree))
    page.get_by_role("button", name="Use it").click()
    restart = page.get_by_role("button", name="Restart the engine")
    restart.click()
    page.get_by_role("button", name="Click again").click()
    tree.until_ready(epoch + 1)
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("button", name="Click again").click()
    title(page, "Turning requests away")
    expect(page.locator("#state-text")).to_contain_text("the engine default is drained", ignore_case=True)
    page.get_by_role("button", name="Resume").click()
    title(page, "Up")
    page.get_by_role("button", name="Silence the alerts").click()
    page.get_by_role("button", name="Click again").click()
    expect(page.locator("#machine")).to_contain_text("silent until")
    page.get_by_role("button", name="End the silence").click()
    expect(page.locator("#machine")).not_to_contain_text("silent until")


def test_where_there_are_keys_the_page_shows_itself_to_the_operator_alone(
    serve_tree: ServeTree, page: Page, tmp_path: Path
) -> None:
    keys = tmp_path / "api.keys"
    keys.write_text(f"alice {'0' * 64}\n")
    tree = serve_tree(SIMULATED.replace("[server]", f'[server]\napi_keys = "{keys}"'))
    page.goto(tree.api)
    title(page, "Locked")
    expect(page.locator("#sections")).to_be_hidden()
    page.locator("#unlock-token").fill(token(tree))
    page.get_by_role("button", name="Show the page").click()
    title(page, "Up")
    expect(page.locator("#sections")).to_be_visible()


def test_a_service_that_is_gone_is_told_and_what_is_shown_is_dated(serve_tree: ServeTree, page: Page) -> None:
    tree = serve_tree()
    page.goto(tree.api)
    title(page, "Up")
    os.kill(tree.client.status().service.pid or 0, signal.SIGKILL)
    title(page, "No answer")
    expect(page.locator("#state-text")).to_contain_text("What is below is from")
    expect(page.locator("#figures")).to_be_visible()
    title(page, "Up")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_everything_can_be_read_and_reached(looked_at: RunningTree, page: Page, scheme: Scheme) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(looked_at.api)
    title(page, "Up")
    page.locator("tr.request button").first.click()
    expect(page.locator(".waterfall")).to_be_visible()
    assert axe_violations(page) == []
    page.get_by_role("button", name="Operate").click()
    assert axe_violations(page) == []


def test_what_is_shown_of_a_service_that_is_gone_can_be_read_too(serve_tree: ServeTree, page: Page) -> None:
    tree = serve_tree()
    page.goto(tree.api)
    title(page, "Up")
    page.route("**/page/events", lambda route: route.abort())
    os.kill(tree.client.status().service.pid or 0, signal.SIGKILL)
    title(page, "No answer")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert axe_violations(page) == []


def test_it_fits_a_phone(looked_at: RunningTree, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(looked_at.api)
    title(page, "Up")
    expect(page.locator("tr.request")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_it_is_painted_at_once_and_updated_cheaply(looked_at: RunningTree, page: Page) -> None:
    page.goto(looked_at.api)
    title(page, "Up")
    painted_ms, update_ms = paint_and_updates_ms(page, updates=12)
    # The bounds are a second and a tenth (`tests.bench.status_page`); here the machine may be busy with other things.
    assert painted_ms < 5_000
    assert update_ms < 500
