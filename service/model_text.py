"""The text layer of a real model: its own chat template and tokenizer, through `mlx_lm.tokenizer_utils`.

No MLX array may come into being in this process: a Metal abort must not reach it. `mlx_lm/__init__.py` imports
models and generation, which make arrays as they are imported; the tokenizer part needs none of that, so it is
imported without its package's `__init__` (and so without `mlx.core`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2.exceptions import TemplateError

from .errors import InvalidMessages, TextModelError
from .schemas import Message


class ModelText:
    """Text of the model whose tokenizer this is."""

    def __init__(self, tokenizer: Any, stop_ids: list[int]) -> None:
        self._tokenizer = tokenizer
        self.stop_ids = stop_ids

    def encode(self, messages: Sequence[Message]) -> list[int]:
        try:
            ids = self._tokenizer.apply_chat_template(
                [_for_template(message) for message in messages], add_generation_prompt=True
            )
        except TemplateError as error:
            raise InvalidMessages(f"the model's chat template refuses these messages: {error}", "messages") from error
        return list(ids)

    def detokenizer(self) -> ModelDetokenizer:
        return ModelDetokenizer(self._tokenizer.detokenizer)


class ModelDetokenizer:
    """mlx-lm's streaming detokenizer of one request."""

    def __init__(self, detokenizer: Any) -> None:
        self._detokenizer = detokenizer

    def add(self, token: int) -> str:
        self._detokenizer.add_token(token)
        segment: str = self._detokenizer.last_segment
        return segment

    def finish(self) -> str:
        self._detokenizer.finalize()
        segment: str = self._detokenizer.last_segment
        return segment


def load_model_text(folder: Path) -> ModelText:
    """Read the tokenizer in a model's folder. Raises `TextModelError`."""
    try:
        tokenizer = _tokenizer_utils().load(folder)
        stop_ids = sorted({*tokenizer.eos_token_ids, *_configured_stop_ids(folder)})
    # Tokenizer files are other people's, and so is the code that reads them: anything may come out of it.
    except Exception as error:
        raise TextModelError(
            f"cannot load the tokenizer in {folder}: {type(error).__name__}: {error}. Is it a complete MLX model?"
        ) from error
    if not tokenizer.has_chat_template:
        raise TextModelError(f"the model in {folder} has no chat template; take an instruct or chat variant of it")
    return ModelText(tokenizer, stop_ids)


def _tokenizer_utils() -> ModuleType:
    """The module `mlx_lm.tokenizer_utils`, with its package's `__init__` not run."""
    # What that `__init__` also does: transformers would print advice about PyTorch into the log.
    os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
    if "mlx_lm" not in sys.modules:
        spec = importlib.util.find_spec("mlx_lm")
        assert spec is not None, "mlx-lm is a dependency"
        sys.modules["mlx_lm"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("mlx_lm.tokenizer_utils")


def _configured_stop_ids(folder: Path) -> Iterator[int]:
    """End-of-text ids of `config.json` and `generation_config.json`: each may name none, one or several."""
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        if not path.exists():
            continue
        ids = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        if isinstance(ids, int):
            yield ids
        elif isinstance(ids, list):
            yield from ids


def _for_template(message: Message) -> dict[str, str]:
    # Chat templates know the role by its older name.
    role = "system" if message.role == "developer" else message.role
    optional = {"name": message.name, "tool_call_id": message.tool_call_id}
    return {"role": role, "content": message.text} | {key: value for key, value in optional.items() if value}
