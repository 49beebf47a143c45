"""Tokenizers whose tags are single special tokens: they are tags all the same, and no client sees one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

# The real package: the stand-in that the service imports in its own process must not get in other tests' way.
import mlx_lm  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.service.conversation import Conversation, Tool, ToolCall, Turn
from stoker.service.model_text import ModelText, load_model_text
from stoker.service.segments import Reasoning, Segment, SegmentReader, Text, merged
from stoker.service.transcript import Transcript
from tests.service.scripts import ARGUMENTS, SAID, THOUGHT, TOOL_SCRIPT, TOOL_TEMPLATE
from tests.tiny_models import VOCABULARY, make_tiny_llama

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
WEATHER = Tool("get_weather", None, {"type": "object"})


def with_special_tags(source: Path, folder: Path, *, opens: bool = False) -> Path:
    """A copy of the tiny model whose tags are special tokens; with `opens`, its template begins the reasoning."""
    shutil.copytree(source, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    like = tokenizer["added_tokens"][-1]
    for number, tag in enumerate(TAGS):
        tokenizer["added_tokens"].append(like | {"id": VOCABULARY + number, "content": tag})
        tokenizer["model"]["vocab"][tag] = VOCABULARY + number
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    path = folder / "tokenizer_config.json"
    template = TOOL_TEMPLATE.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n") if opens else None
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template or TOOL_TEMPLATE}))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelText:
    folder = tmp_path_factory.mktemp("special")
    return load_model_text(with_special_tags(make_tiny_llama(folder / "plain"), folder / "tags"))


def read(model: ModelText, ids: list[int], *, in_reasoning: bool = False) -> list[Segment]:
    reader = SegmentReader(model.markup, (WEATHER,), in_reasoning=in_reasoning)
    transcript = Transcript(model.detokenizer(), reader)
    pieces = [segment for token in ids for segment in transcript.add([token])]
    return merged([*pieces, *transcript.finish()])


def test_each_tag_is_one_token(model: ModelText) -> None:
    assert all(len(model.encode(tag)) == 1 for tag in TAGS)


def test_an_answer_with_special_tags_is_told_apart(model: ModelText) -> None:
    reasoning, text, call = read(model, model.encode(TOOL_SCRIPT))
    assert (reasoning, text) == (Reasoning(THOUGHT), Text(SAID))
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == ARGUMENTS


def test_a_template_that_opens_the_reasoning_is_noticed(model: ModelText, tiny_model: Path, tmp_path: Path) -> None:
    opening = load_model_text(with_special_tags(tiny_model, tmp_path / "opens", opens=True))
    assert opening.render(Conversation((Turn("user", "x"),))).in_reasoning
    assert not model.render(Conversation((Turn("user", "x"),))).in_reasoning
    ids = opening.encode("Hm.\n</think>\n\nYes.")
    assert read(opening, ids, in_reasoning=True) == [Reasoning("Hm."), Text("Yes.")]


@given(st.lists(st.sampled_from([*TAGS, "a", "é", " ", "\n", "<", "{", '{"name": "f", "arguments": {}}']), max_size=12))
def test_no_special_tag_is_ever_shown(model: ModelText, parts: list[str]) -> None:
    shown = [segment for segment in read(model, model.encode("".join(parts))) if isinstance(segment, Text)]
    assert not any(tag in segment.text for segment in shown for tag in TAGS)
