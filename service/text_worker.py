"""The text model of one service on a worker thread, loading included, so that the event loop answers meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from .byte_text import ByteText
from .cache_report import message_at
from .conversation import Conversation
from .telemetry import TOKENIZE
from .text import Prompt, TextModel
from .trace import timed

T = TypeVar("T")


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
        self._model = await self._off_the_loop(lambda: _load(self._model_path))

    async def render(self, conversation: Conversation, most: int | None = None) -> Prompt:
        """`TextModel.render` off the event loop."""
        with timed(TOKENIZE):
            return await self._off_the_loop(lambda: self.model.render(conversation, most))

    async def encode(self, text: str, most: int | None = None) -> list[int]:
        """`TextModel.encode` off the event loop."""
        with timed(TOKENIZE):
            return await self._off_the_loop(lambda: self.model.encode(text, most))

    async def message_at(self, token: int, ids: Sequence[int], conversation: Conversation) -> int | None:
        """`cache_report.message_at` off the event loop."""
        return await self._off_the_loop(
            lambda: message_at(token, ids, conversation, lambda part: self.model.render(part).ids)
        )

    def close(self) -> None:
        """Drop what waits; what runs is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _off_the_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _load(model_path: Path | None) -> TextModel:
    if model_path is None:
        return ByteText()
    # Takes seconds to import: here, on the worker thread, it keeps nobody waiting.
    from .model_text import load_model_text

    return load_model_text(model_path)
