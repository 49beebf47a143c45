"""Whether a greedy text that differs does so by a tie: two tokens that the model holds for equally likely.

The same prompt is run again beside the chaos, with log probabilities. Where it parts from the text in question, the
two tokens' log probabilities say how much the model cared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.chaos.findings import Difference
from tests.e2e.chatting import chat_body

TOP = 20


@dataclass(frozen=True)
class Choice:
    """One position: the token that was drawn, and the likeliest ones by log probability."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


async def with_margins(api: str, differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """The same differences, those of greedy requests with how far apart the two tokens are."""
    async with aiohttp.ClientSession() as http:
        return tuple([await _with_margin(http, api, each) if each.request.greedy else each for each in differences])


async def _with_margin(http: aiohttp.ClientSession, api: str, found: Difference) -> Difference:
    choices = await _choices(http, api, found)
    # The side run may itself fall to either side of a tie.
    other = found.expected if "".join(choice.token for choice in choices) == found.got else found.got
    return dataclasses.replace(found, margin=margin(choices, other))


async def _choices(http: aiohttp.ClientSession, api: str, found: Difference) -> list[Choice]:
    body = chat_body(
        found.request.content, temperature=0, max_tokens=found.request.max_tokens, logprobs=True, top_logprobs=TOP
    )
    async with http.post(f"{api}/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        answer: dict[str, Any] = await response.json()
    return [
        Choice(each["token"], each["logprob"], tuple((top["token"], top["logprob"]) for top in each["top_logprobs"]))
        for each in answer["choices"][0]["logprobs"]["content"]
    ]


def margin(choices: Sequence[Choice], other: str) -> float | None:
    """How much likelier the drawn token is than the one by which `other` parts from this text.

    None when they do not part, or when the other token is not among the likeliest.
    """
    text = ""
    for choice in choices:
        if not other.startswith(text + choice.token):
            return _margin_at(choice, other[len(text) :])
        text += choice.token
    return None


def _margin_at(choice: Choice, rest: str) -> float | None:
    # Of several tokens that the rest begins with, the longest is the one that a tokenizer would have written.
    fitting = [(len(token), logprob) for token, logprob in choice.top if token and rest.startswith(token)]
    return abs(choice.logprob - max(fitting)[1]) if fitting else None
