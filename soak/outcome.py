"""What became of one request, in seconds of the run's clock: the record that benchmarks and soak runs are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Failure(StrEnum):
    """Why a request has no whole answer."""

    REFUSED = "refused"
    """429, 503 or 529: the server says that it has no room. Counted apart from errors."""
    REJECTED = "rejected"
    """Any other 4xx: the request is wrong, or too long."""
    SERVER_ERROR = "server_error"
    """Any other 5xx, or an error event in a stream."""
    UNREACHABLE = "unreachable"
    """No connection, or none that gave an answer's first line."""
    BROKEN = "broken"
    """The answer began and was cut, or ended without saying so."""
    MALFORMED = "malformed"
    """What came is not what the API says."""
    TIMEOUT = "timeout"
    """Nothing came for as long as the load client waits."""


ERRORS = frozenset(Failure) - {Failure.REFUSED, Failure.REJECTED}
"""The failures that are the server's: the error rate counts these."""


class Finding(StrEnum):
    """Why a text cannot be right although the request did not fail."""

    EMPTY = "empty"
    """Tokens were counted, and no text came."""
    WRONG_COUNT = "wrong_count"
    """Cut at its bound, and yet not that many tokens: some were lost or repeated."""
    MOJIBAKE = "mojibake"
    """Replacement characters: bytes of a character were lost or put together wrongly."""
    REPETITION = "repetition"
    """The end says the same over and over, further than a model does by itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request. Latencies count from `intended`: a late start is the server's doing, not its discount.

    Times are seconds of the run's clock. Token counts are the server's own, None where it does not say.
    """

    workload: str
    conversation: int
    turn: int
    """Both from 0: the same numbers are the same request in every run of the same seed."""
    intended: float
    """When it should have been sent."""
    sent: float
    first_token: float | None
    ended: float
    gaps: tuple[float, ...] = ()
    """Between two arrivals of text or more; a server that sends several tokens at once has fewer gaps than tokens."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    failure: Failure | None = None
    error: str | None = None
    """The server's or the system's own words, cut to one line."""
    resumed: bool = False
    """The server says that another engine went on with it."""
    findings: tuple[Finding, ...] = ()
    finish_reason: str | None = None
    text: str = ""
    """Reasoning included."""

    @property
    def ok(self) -> bool:
        """It has a whole answer."""
        return self.failure is None

    @property
    def ttft_s(self) -> float | None:
        """From the intended start to the first token."""
        return None if self.first_token is None else self.first_token - self.intended

    @property
    def tpot_s(self) -> float | None:
        """(end - first token) / (n - 1), with the last arrival of text for the end."""
        if self.first_token is None or self.completion_tokens is None or self.completion_tokens < 2:
            return None
        return sum(self.gaps) / (self.completion_tokens - 1)

    @property
    def duration_s(self) -> float:
        """From the intended start to the end."""
        return self.ended - self.intended
