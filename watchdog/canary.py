"""Canaries: tiny requests through the real API, and now and then a look whether the prefix cache changes answers.

A canary is of the lowest priority, so it waits behind everybody; it shows the tree's own token and is counted apart.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Protocol

import aiohttp
import msgspec
import structlog

from .samples import Check

QUESTION = "Count from one to five."
PARAGRAPH = "A watchman walks around the house every night and writes down what he has seen. "
LONG_QUESTION = PARAGRAPH * 30 + QUESTION
"""Long enough to fill blocks of the prefix cache, which knows no prefix shorter than one."""
ANSWER_TOKENS = 8
TIE = 0.05
"""Two tokens whose log probabilities are this near each other may change places for the rounding of another batch."""

_UNANSWERED = (aiohttp.ClientError, TimeoutError, msgspec.DecodeError)

log = structlog.get_logger(__name__)


class Candidate(msgspec.Struct, frozen=True):
    """A token that could have been drawn."""

    token: str
    logprob: float


class Drawn(msgspec.Struct, frozen=True):
    """A token of an answer, with those that came nearest."""

    token: str
    logprob: float
    top_logprobs: list[Candidate] = []


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[Drawn]


class _Choice(msgspec.Struct, frozen=True):
    logprobs: _Logprobs | None = None


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: int = 0


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens_details: _Details | None = None


class Answer(msgspec.Struct, frozen=True):
    """What is read of a chat completion."""

    choices: list[_Choice]
    usage: _Usage

    @property
    def drawn(self) -> list[Drawn]:
        logprobs = self.choices[0].logprobs
        return [] if logprobs is None else logprobs.content

    @property
    def cached_tokens(self) -> int:
        details = self.usage.prompt_tokens_details
        return 0 if details is None else details.cached_tokens


class Observer(Protocol):
    """Who counts canaries."""

    def canary(self, outcome: str, duration_s: float) -> None:
        """One came back, or did not: `answered`, `refused`, `failed`, `right`, `wrong`."""


class Refused(Exception):
    """The service turned the canary away because there is too much to do, which is no fault."""


class Canary:
    """Sends them; `latest` is for the samples. One at a time."""

    def __init__(
        self,
        url: Callable[[], str],
        admin_token: str,
        http: aiohttp.ClientSession,
        observer: Observer,
        deadline_s: float,
    ) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {admin_token}", "x-stoker-priority": "batch"}
        self._http = http
        self._observer = observer
        self._deadline_s = deadline_s
        self._number = 0
        self.under_way = 0
        """Canaries among the engine's requests at the moment."""
        self.latest: Check | None = None

    async def ask(self) -> None:
        """One tiny request."""
        began = time.monotonic()
        try:
            await self._answer(QUESTION, cached=True)
        except Refused:
            self._observer.canary("refused", time.monotonic() - began)
        except _UNANSWERED as error:
            log.warning("canary_failed", error=f"{type(error).__name__}: {error}")
            self._note("failed", time.monotonic() - began, answered=False)
        else:
            self._note("answered", time.monotonic() - began, answered=True)

    async def recheck(self) -> None:
        """After one that was not answered: whether that is over. That it goes on is no news."""
        if self.latest is None or self.latest.answered:
            return
        began = time.monotonic()
        with contextlib.suppress(Refused, *_UNANSWERED):
            await self._answer(QUESTION, cached=True)
            self._note("answered", time.monotonic() - began, answered=True)

    async def compare(self) -> None:
        """The same prompt with and without the prefix cache; says nothing when the cache had no part in it."""
        began = time.monotonic()
        try:
            await self._answer(LONG_QUESTION, cached=True)
            with_cache = await self._answer(LONG_QUESTION, cached=True)
            without = await self._answer(LONG_QUESTION, cached=False)
        except (Refused, *_UNANSWERED) as error:
            log.info("cache_not_compared", error=f"{type(error).__name__}: {error}")
            return
        if not with_cache.cached_tokens or without.cached_tokens:
            log.info("cache_not_compared", cached_tokens=with_cache.cached_tokens, without=without.cached_tokens)
            return
        right = is_same(with_cache.drawn, without.drawn)
        self._note("right" if right else "wrong", (time.monotonic() - began) / 3, answered=True, right=right)

    def _note(self, outcome: str, duration_s: float, *, answered: bool, right: bool | None = None) -> None:
        self._number += 1
        self.latest = Check(self._number, answered, duration_s, right)
        self._observer.canary(outcome, duration_s)

    async def _answer(self, question: str, *, cached: bool) -> Answer:
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": question}],
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
        }
        headers = self._headers if cached else {**self._headers, "x-stoker-prefix-cache": "off"}
        timeout = aiohttp.ClientTimeout(total=self._deadline_s)
        self.under_way += 1
        try:
            url = f"{self._url()}/v1/chat/completions"
            async with self._http.post(
                url, data=msgspec.json.encode(body), headers=headers, timeout=timeout
            ) as response:
                content = await response.read()
                if response.status in {429, 503}:
                    raise Refused(content.decode(errors="replace"))
                response.raise_for_status()
                return msgspec.json.decode(content, type=Answer)
        finally:
            self.under_way -= 1


def is_same(one: list[Drawn], other: list[Drawn]) -> bool:
    """Whether two greedy answers are the same, but for a tie that rounding may break either way. Pure."""
    for mine, its in zip(one, other, strict=False):
        if mine.token != its.token:
            # After the first different token the answers have different beginnings, and may go anywhere.
            return _ties(mine, its.token) and _ties(its, mine.token)
    return len(one) == len(other)


def _ties(drawn: Drawn, rival: str) -> bool:
    return any(each.token == rival and drawn.logprob - each.logprob < TIE for each in drawn.top_logprobs)
