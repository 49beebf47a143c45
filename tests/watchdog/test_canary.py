"""Canaries against a server that answers as it is told, and the comparison of two answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from stoker.watchdog.canary import TIE, Canary, Candidate, Drawn, is_same
from stoker.watchdog.samples import Check

TOKEN = "let-me-in"


class Api:
    """Answers with the words it is given, with and without the cache; keeps what it was asked."""

    def __init__(self) -> None:
        self.cached = ["one", "two"]
        self.uncached = ["one", "two"]
        self.cached_tokens = 640
        self.status = 200
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((dict(request.headers), await request.json()))
        if self.status != 200:
            return web.json_response({"error": "no"}, status=self.status)
        fresh = request.headers.get("x-stoker-prefix-cache") == "off"
        words = self.uncached if fresh else self.cached
        content = [{"token": word, "logprob": -0.1, "top_logprobs": []} for word in words]
        cached_tokens = 0 if fresh else self.cached_tokens
        usage = {"prompt_tokens": 700, "prompt_tokens_details": {"cached_tokens": cached_tokens}}
        return web.json_response({"choices": [{"logprobs": {"content": content}}], "usage": usage})


class Counted:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def canary(self, outcome: str, duration_s: float) -> None:
        assert duration_s >= 0
        self.outcomes.append(outcome)


class Cage:
    """A canary, the API that it asks, and who counts."""

    def __init__(self, api: Api, counted: Counted, canary: Canary) -> None:
        self.api = api
        self.counted = counted
        self.canary = canary

    @property
    def latest(self) -> Check:
        assert self.canary.latest is not None
        return self.canary.latest


@pytest.fixture
async def cage() -> AsyncIterator[Cage]:
    api, counted = Api(), Counted()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", api.answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        url = str(server.make_url("")).rstrip("/")
        yield Cage(api, counted, Canary(lambda: url, TOKEN, http, counted, deadline_s=5.0))


async def test_a_canary_is_of_the_lowest_priority_and_shows_the_trees_own_token(cage: Cage) -> None:
    await cage.canary.ask()
    ((headers, body),) = cage.api.asked
    assert (headers["Authorization"], headers["x-stoker-priority"]) == (f"Bearer {TOKEN}", "batch")
    assert body["max_tokens"] <= 8
    assert (cage.latest.number, cage.latest.answered, cage.counted.outcomes) == (1, True, ["answered"])
    assert cage.canary.under_way == 0


async def test_an_error_is_a_canary_that_was_not_answered(cage: Cage) -> None:
    cage.api.status = 500
    await cage.canary.ask()
    assert (cage.latest.answered, cage.counted.outcomes) == (False, ["failed"])


async def test_one_that_was_not_answered_is_looked_at_again_until_it_is(cage: Cage) -> None:
    await cage.canary.recheck()
    assert cage.api.asked == []
    cage.api.status = 500
    await cage.canary.ask()
    await cage.canary.recheck()
    assert (cage.latest.number, len(cage.api.asked), cage.counted.outcomes) == (1, 2, ["failed"])
    cage.api.status = 200
    await cage.canary.recheck()
    assert (cage.latest.number, cage.latest.answered, cage.counted.outcomes) == (2, True, ["failed", "answered"])
    await cage.canary.recheck()
    assert len(cage.api.asked) == 3


@pytest.mark.parametrize("status", [429, 503])
async def test_one_that_is_turned_away_for_want_of_room_says_nothing_about_health(cage: Cage, status: int) -> None:
    cage.api.status = status
    await cage.canary.ask()
    assert (cage.canary.latest, cage.counted.outcomes) == (None, ["refused"])


async def test_a_cache_that_changes_nothing_is_right(cage: Cage) -> None:
    await cage.canary.compare()
    assert (cage.latest.cache_is_right, cage.counted.outcomes) == (True, ["right"])
    assert [headers.get("x-stoker-prefix-cache") for headers, _ in cage.api.asked] == [None, None, "off"]


async def test_a_cache_that_changes_the_answer_is_wrong(cage: Cage) -> None:
    cage.api.uncached = ["one", "three"]
    await cage.canary.compare()
    assert (cage.latest.cache_is_right, cage.counted.outcomes) == (False, ["wrong"])


async def test_an_answer_in_which_the_cache_had_no_part_says_nothing_about_it(cage: Cage) -> None:
    cage.api.cached_tokens = 0
    await cage.canary.compare()
    assert cage.canary.latest is None


def drawn(token: str, logprob: float, *others: tuple[str, float]) -> Drawn:
    return Drawn(token, logprob, [Candidate(token, logprob), *(Candidate(*other) for other in others)])


def test_a_tie_that_rounding_breaks_the_other_way_is_no_difference() -> None:
    one = [drawn("a", -0.1), drawn("b", -0.70, ("c", -0.71)), drawn("d", -0.1)]
    other = [drawn("a", -0.1), drawn("c", -0.70, ("b", -0.71)), drawn("e", -0.1)]
    assert is_same(one, other)


def test_a_token_that_was_far_from_being_drawn_is_a_difference() -> None:
    one = [drawn("a", -0.1), drawn("b", -0.1, ("c", -2.4))]
    other = [drawn("a", -0.1), drawn("c", -0.1, ("b", -2.4))]
    assert not is_same(one, other)


def test_an_answer_that_ends_early_is_a_difference() -> None:
    assert not is_same([drawn("a", -0.1)], [drawn("a", -0.1), drawn("b", -0.1)])


TOKENS = st.builds(drawn, st.sampled_from("abc"), st.floats(-3, 0), st.tuples(st.sampled_from("abc"), st.floats(-3, 0)))


@given(st.lists(TOKENS, max_size=6), st.lists(TOKENS, max_size=6))
def test_it_does_not_matter_which_answer_is_asked_about_first(one: list[Drawn], other: list[Drawn]) -> None:
    assert is_same(one, one)
    assert is_same(one, other) == is_same(other, one)
    assert TIE > 0
