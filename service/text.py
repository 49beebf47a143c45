"""The text layer: messages to prompt ids, output ids to text, whatever the model.

Rendering and tokenizing run on one worker thread, loading too, so that the event loop answers meanwhile.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from .schemas import Message


class Detokenizer(Protocol):
    """Makes text of one request's output ids, in order. A character that is not complete yet is held back."""

    def add(self, token: int) -> str:
        """The text that this id completes."""

    def finish(self) -> str:
        """The text that was held back, once nothing follows."""


class TextModel(Protocol):
    """How one model writes and reads."""

    @property
    def stop_ids(self) -> list[int]:
        """The ids at which the model's answer ends."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The prompt's ids. May take long. Raises `InvalidMessages` when the chat template refuses the messages."""

    def detokenizer(self) -> Detokenizer:
        """A fresh one, for one request."""


class ByteText:
    """The simulated engine's text: every id is a byte, id 0 ends an answer."""

    stop_ids: list[int] = [0]  # noqa: RUF012 - a plain list is what goes into `Submit`, and nobody changes it

    def encode(self, messages: Sequence[Message]) -> list[int]:
        turns = [f"{message.role}: {message.text}\n" for message in messages]
        return list(("".join(turns) + "assistant: ").encode())

    def detokenizer(self) -> ByteDetokenizer:
        return ByteDetokenizer()


class ByteDetokenizer:
    """UTF-8 as it arrives, byte by byte; bytes that are none become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        return self._decoder.decode(bytes([token]))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class TextWorker:
    """The text model of one service, loaded and used on a thread of its own."""

    def __init__(self, model_path: Path | None) -> None:
        self._model_path = model_path
        self._model: TextModel | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="text")

    @property
    def ready(self) -> bool:
        return self._model is not None

    @property
    def model(self) -> TextModel:
        """Only when `ready`."""
        assert self._model is not None, "nobody is admitted before the tokenizer is there"
        return self._model

    async def load(self) -> None:
        """Raises `TextModelError`."""
        self._model = await asyncio.get_running_loop().run_in_executor(self._thread, _load, self._model_path)

    async def encode(self, messages: Sequence[Message]) -> list[int]:
        """`TextModel.encode` off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.model.encode, messages)

    def close(self) -> None:
        """Drop what waits; what runs is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _load(model_path: Path | None) -> TextModel:
    if model_path is None:
        return ByteText()
    # Takes seconds to import: here, on the worker thread, it keeps nobody waiting.
    from .model_text import load_model_text

    return load_model_text(model_path)
