"""The shapes of answers."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import FinishReason
from stoker.service.openai import Answer, Chunks, sampling, usage
from stoker.service.schemas import ChatCompletionRequest

ANSWER = Answer("chatcmpl-1", "tiny", 1_700_000_000)


def parsed(event: bytes) -> dict[str, Any]:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2, "an event is one line"
    value: dict[str, Any] = orjson.loads(event.removeprefix(b"data: "))
    return value


@given(st.text(), st.booleans())
def test_any_text_is_one_well_formed_event(text: str, include_usage: bool) -> None:
    chunk = parsed(Chunks(ANSWER, include_usage).text(text))
    assert chunk["choices"] == [{"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}]
    assert (chunk["id"], chunk["object"], chunk["model"]) == ("chatcmpl-1", "chat.completion.chunk", "tiny")
    assert ("usage" in chunk) == include_usage


def test_only_the_last_chunk_has_the_usage_and_no_choice() -> None:
    chunk = parsed(Chunks(ANSWER, include_usage=True).usage(usage(3, 4, 2)))
    assert chunk["choices"] == []
    assert chunk["usage"]["total_tokens"] == 7
    assert chunk["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}


def test_the_reason_for_the_end_is_in_a_chunk_of_its_own() -> None:
    chunk = parsed(Chunks(ANSWER, include_usage=False).finish(FinishReason.LENGTH))
    assert chunk["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}


def request(**more: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate({"model": "m", "messages": [{"role": "user", "content": "x"}]} | more)


def test_a_request_that_says_nothing_gets_the_apis_defaults_and_a_seed_of_its_own() -> None:
    chosen = sampling(request())
    assert (chosen.temperature, chosen.top_p, chosen.top_k, chosen.min_p) == (1.0, 1.0, 0, 0.0)
    assert sampling(request()).seed != chosen.seed


@pytest.mark.parametrize("seed", [0, 5, -1, -(2**63), 2**63 - 1])
def test_any_seed_of_the_api_is_one_for_the_engine(seed: int) -> None:
    chosen = sampling(request(seed=seed, temperature=0, top_k=4))
    assert 0 <= chosen.seed < 2**63
    assert (chosen.temperature, chosen.top_k) == (0, 4)
