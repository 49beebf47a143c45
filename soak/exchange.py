"""One request and its answer, with the time of every arrival; whatever goes wrong is part of the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import aiohttp

from .outcome import Failure, Outcome
from .sanity import findings
from .target import Target
from .wire import WIRES, Events, Malformed, Reading, Wire
from .workloads.conversation import Conversation, Message

_RESUMED = b"resume;desc="
"""In the comment with which a stream of Stoker says where its time went."""
REFUSALS = frozenset({429, 503, 529})
_WORDS_OF_AN_ERROR = 300


class _Failed(Exception):
    def __init__(self, failure: Failure, words: str) -> None:
        super().__init__(words)
        self.failure = failure
        self.words = words


@dataclass(slots=True)
class _Arrivals:
    """When something of the answer came, in seconds of the run."""

    at: list[float] = field(default_factory=list)
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True, slots=True)
class Request:
    """The request that is due: this conversation's turn, with all that was said before."""

    conversation: Conversation
    turn: int
    messages: list[Message]
    intended: float

    @property
    def max_tokens(self) -> int:
        return self.conversation.turns[self.turn].max_tokens


class Exchange:
    """Asks one target. `clock` gives the run's seconds; a request that takes longer than `deadline_s` is given up."""

    def __init__(
        self, http: aiohttp.ClientSession, target: Target, clock: Callable[[], float], deadline_s: float
    ) -> None:
        self._http = http
        self._target = target
        self._wire: Wire = WIRES[target.api]
        self._clock = clock
        self._deadline_s = deadline_s

    async def ask(self, request: Request) -> tuple[Outcome, str]:
        """Never raises, but when cancelled. With the outcome comes the text that goes on in the conversation."""
        arrivals = _Arrivals()
        sent = self._clock()
        failure, error = await self._attempt(request, arrivals)
        reading = arrivals.reading
        text = "".join(reading.texts)
        whole = "".join(reading.reasoning) + text
        count = reading.completion_tokens
        outcome = Outcome(
            workload=request.conversation.workload,
            conversation=request.conversation.number,
            turn=request.turn,
            intended=request.intended,
            sent=sent,
            first_token=arrivals.at[0] if arrivals.at else None,
            ended=self._clock(),
            gaps=tuple(later - earlier for earlier, later in pairwise(arrivals.at)),
            prompt_tokens=reading.prompt_tokens,
            cached_tokens=reading.cached_tokens,
            completion_tokens=count,
            failure=failure,
            error=error,
            resumed=reading.resumed,
            findings=() if failure else findings(whole, count, request.max_tokens, reading.finish_reason),
            finish_reason=reading.finish_reason,
            text=whole,
        )
        return outcome, text

    async def _attempt(self, request: Request, arrivals: _Arrivals) -> tuple[Failure | None, str | None]:
        try:
            async with asyncio.timeout(self._deadline_s), self._post(request) as response:
                try:
                    await self._read(response, arrivals)
                except aiohttp.ClientError as error:
                    raise _Failed(Failure.BROKEN, f"{type(error).__name__}: {error}") from error
        except _Failed as failed:
            return failed.failure, failed.words[:_WORDS_OF_AN_ERROR]
        except TimeoutError:
            return Failure.TIMEOUT, f"not answered within {self._deadline_s:.0f} s"
        except (aiohttp.ClientError, OSError) as error:
            return Failure.UNREACHABLE, f"{type(error).__name__}: {error}"
        return None, None

    def _post(self, request: Request) -> aiohttp.client._RequestContextManager:
        asked = self._wire.body(self._target, request.conversation, request.messages, request.max_tokens)
        return self._http.post(
            self._target.url + self._wire.path,
            json={**asked, **self._target.options},
            headers={**self._target.headers, **self._wire.headers(self._target)},
        )

    async def _read(self, response: aiohttp.ClientResponse, arrivals: _Arrivals) -> None:
        if response.status != 200:
            raise _Failed(_failure_of(response.status), f"{response.status}: {await response.text(errors='replace')}")
        events, reading = Events(), arrivals.reading
        async for data in response.content.iter_any():
            now = self._clock()
            news = False
            for name, value in events.feed(data):
                if name == b"data":
                    news |= self._taken(reading, value)
                elif not name and _RESUMED in value:
                    reading.resumed = True
            # What arrives together is one arrival: a client cannot show it earlier.
            if news:
                arrivals.at.append(now)
        if reading.error is not None:
            raise _Failed(Failure.SERVER_ERROR, reading.error)
        if reading.finish_reason is None:
            raise _Failed(Failure.BROKEN, "the stream ended without a finish reason")

    def _taken(self, reading: Reading, data: bytes) -> bool:
        try:
            return self._wire.take(reading, data)
        except Malformed as error:
            raise _Failed(Failure.MALFORMED, str(error)) from error


def _failure_of(status: int) -> Failure:
    if status in REFUSALS:
        return Failure.REFUSED
    return Failure.REJECTED if status < 500 else Failure.SERVER_ERROR


def session() -> aiohttp.ClientSession:
    """For any number of streams. Each request has a connection of its own, as those of different users have.

    One that is kept open may be closed by the server just when it is used again: that would look like an error.
    """
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    # The environment's proxies are not between this client and what it measures.
    return aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None), json_serialize=_json, trust_env=False
    )


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
