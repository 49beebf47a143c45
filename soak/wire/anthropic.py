"""`/v1/messages` from a client's side."""

from __future__ import annotations

from typing import Any

import orjson

from ..target import Target
from ..workloads.conversation import Conversation, Message
from .reading import Malformed, Reading

_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


class Anthropic:
    """Messages, streamed."""

    path = "/v1/messages"

    def headers(self, target: Target) -> dict[str, str]:
        """The version that every client sends, and the key, if there is one."""
        key = {} if target.key is None else {"x-api-key": target.key}
        return {"anthropic-version": "2023-06-01", **key}

    def body(self, target: Target, asked: Conversation, messages: list[Message], max_tokens: int) -> dict[str, Any]:
        """The API has no seed."""
        body: dict[str, Any] = {
            "model": target.model,
            "messages": [
                {"role": message.role, "content": message.text} for message in messages if message.role != "system"
            ],
            "max_tokens": max_tokens,
            "temperature": asked.temperature,
            "stream": True,
        }
        if systems := [message.text for message in messages if message.role == "system"]:
            body["system"] = "\n\n".join(systems)
        return body

    def take(self, reading: Reading, data: bytes) -> bool:
        """One event; its type is in its data too."""
        try:
            event = orjson.loads(data)
            match event["type"]:
                case "message_start":
                    self._prompt(reading, event["message"].get("usage") or {})
                case "content_block_delta":
                    return self._delta(reading, event["delta"])
                case "message_delta":
                    self._end(reading, event)
                case "error":
                    reading.error = str(event["error"]["message"])
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            raise Malformed(f"not an event of a message ({error}): {data[:200]!r}") from error
        return False

    @staticmethod
    def _prompt(reading: Reading, usage: dict[str, Any]) -> None:
        """Anthropic counts cached tokens beside the input's, not among them."""
        if "input_tokens" in usage:
            reading.cached_tokens = usage.get("cache_read_input_tokens")
            written = usage.get("cache_creation_input_tokens") or 0
            reading.prompt_tokens = usage["input_tokens"] + (reading.cached_tokens or 0) + written

    def _end(self, reading: Reading, event: dict[str, Any]) -> None:
        if reason := event["delta"].get("stop_reason"):
            reading.finish_reason = _FINISH_REASONS.get(reason, reason)
        usage = event.get("usage") or {}
        self._prompt(reading, usage)
        reading.completion_tokens = usage.get("output_tokens", reading.completion_tokens)

    @staticmethod
    def _delta(reading: Reading, delta: dict[str, Any]) -> bool:
        text = delta.get("text") or delta.get("partial_json")
        thought = delta.get("thinking")
        if text:
            reading.texts.append(text)
        if thought:
            reading.reasoning.append(thought)
        return bool(text or thought)
