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
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2.exceptions import TemplateError

from .conversation import Conversation
from .errors import InvalidMessages, TextModelError
from .markup import CallFormat, Markup
from .sampling import Wishes, recommended_by
from .template import for_template
from .text import Prompt
from .tools import LLAMA, PYTHON_TAG

CHARACTERS_A_TOKEN = 8
"""More than in almost any text: what is longer by this measure is looked at in its beginning first, since all of 20 MB
takes a tokenizer half a minute, and everybody else waits for it meanwhile."""
CUT_TOKENS = 64
"""Far more than a cut through a word could add."""


class ModelText:
    """Text of the model whose tokenizer this is."""

    def __init__(self, tokenizer: Any, stop_ids: list[int], recommended: Wishes) -> None:
        self._tokenizer = tokenizer
        self.stop_ids = stop_ids
        self.recommended = recommended
        self.markup = _markup(tokenizer)

    def render(self, conversation: Conversation, most: int | None = None) -> Prompt:
        messages, options = for_template(conversation, self._short_call_ids)
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **options
            )
        except TemplateError as error:
            raise InvalidMessages(f"the model's chat template refuses these messages: {error}", "messages") from error
        think = self.markup.think
        return Prompt(self.encode(text, most), in_reasoning=think is not None and text.rstrip().endswith(think[0]))

    def encode(self, text: str, most: int | None = None) -> list[int]:
        if most is not None and len(text) > most * CHARACTERS_A_TOKEN:
            begin = self._ids(text[: most * CHARACTERS_A_TOKEN])
            if len(begin) > most + CUT_TOKENS:
                return begin
        return self._ids(text)

    def text_of(self, token: int) -> str:
        text: str = self._tokenizer.decode([token])
        return text

    def detokenizer(self) -> ModelDetokenizer:
        return ModelDetokenizer(self._tokenizer.detokenizer)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    @property
    def _short_call_ids(self) -> bool:
        """Templates of Mistral refuse any id of a call that has not nine characters."""
        return self.markup.call is not None and self.markup.call.start == "[TOOL_CALLS]"


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
        recommended = recommended_by(folder)
    # Tokenizer files are other people's, and so is the code that reads them: anything may come out of it.
    except Exception as error:
        raise TextModelError(
            f"cannot load the tokenizer in {folder}: {type(error).__name__}: {error}. Is it a complete MLX model?"
        ) from error
    if not tokenizer.has_chat_template:
        raise TextModelError(f"the model in {folder} has no chat template; take an instruct or chat variant of it")
    return ModelText(tokenizer, stop_ids, recommended)


def _tokenizer_utils() -> ModuleType:
    """The module `mlx_lm.tokenizer_utils`, with its package's `__init__` not run."""
    # What that `__init__` also does: transformers would print advice about PyTorch into the log.
    os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
    if "mlx_lm" not in sys.modules:
        spec = importlib.util.find_spec("mlx_lm")
        assert spec is not None, "mlx-lm is a dependency"
        sys.modules["mlx_lm"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("mlx_lm.tokenizer_utils")


def _markup(tokenizer: Any) -> Markup:
    """The tags that mlx-lm knows of this model, and Llama 3's, which it does not."""
    call: CallFormat | None = None
    if tokenizer.has_tool_calling:
        call = CallFormat(tokenizer.tool_call_start, tokenizer.tool_call_end, tokenizer.tool_parser)
    elif PYTHON_TAG in str(tokenizer.chat_template) or PYTHON_TAG in tokenizer.get_vocab():
        call = LLAMA
    think = (tokenizer.think_start, tokenizer.think_end) if tokenizer.has_thinking else None
    return Markup(think=think, call=call, noise=tuple(tokenizer.structural_markers))


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
