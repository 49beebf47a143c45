"""`/v1/chat/completions` from a client's side."""

from __future__ import annotations

from typing import Any

import orjson

from ..target import Target
from ..workloads.conversation import Conversation, Message
from .reading import Malformed, Reading


class OpenAI:
    """Chat completions, streamed, with usage."""

    path = "/v1/chat/completions"

    def headers(self, target: Target) -> dict[str, str]:
        """The key, if there is one."""
        return {} if target.key is None else {"Authorization": f"Bearer {target.key}"}

    def body(self, target: Target, asked: Conversation, messages: list[Message], max_tokens: int) -> dict[str, Any]:
        """Without what is not wanted: some servers refuse, or serve more slowly, what they see named."""
        body: dict[str, Any] = {
            "model": target.model,
            "messages": [{"role": message.role, "content": message.text} for message in messages],
            "max_tokens": max_tokens,
            "temperature": asked.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if target.seeds:
            body["seed"] = asked.seed
        return body

    def take(self, reading: Reading, data: bytes) -> bool:
        """A chunk, an error, or the end."""
        if data == b"[DONE]":
            return False
        try:
            chunk = orjson.loads(data)
            if error := chunk.get("error"):
                reading.error = str(error.get("message", error) if isinstance(error, dict) else error)
                return False
            self._usage(reading, chunk.get("usage") or {})
            news = [self._choice(reading, choice) for choice in chunk.get("choices") or ()]
            return any(news)
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            raise Malformed(f"not a chunk of a chat completion ({error}): {data[:200]!r}") from error

    @staticmethod
    def _usage(reading: Reading, usage: dict[str, Any]) -> None:
        if usage:
            reading.prompt_tokens = usage["prompt_tokens"]
            reading.completion_tokens = usage["completion_tokens"]
            reading.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    @staticmethod
    def _choice(reading: Reading, choice: dict[str, Any]) -> bool:
        delta = choice.get("delta") or {}
        if reason := choice.get("finish_reason"):
            reading.finish_reason = reason
        # `reasoning_content` is DeepSeek's name for it, `reasoning` OpenRouter's and mlx_lm.server's.
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        called = "".join(call["function"].get("arguments") or "" for call in delta.get("tool_calls") or ())
        said = delta.get("content")
        if thought:
            reading.reasoning.append(thought)
        if said or called:
            reading.texts.append((said or "") + called)
        return bool(thought or said or delta.get("tool_calls"))
