"""Text of the simulated engine, of a real model's tokenizer, and of one request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

# The real package: the stand-in that the service imports in its own process must not get in other tests' way.
import mlx_lm  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.service.byte_text import ByteText
from stoker.service.conversation import Conversation, Tool, ToolCall, Turn
from stoker.service.errors import InvalidMessages, TextModelError
from stoker.service.markup import Markup
from stoker.service.model_text import load_model_text
from stoker.service.sampling import Wishes
from stoker.service.segments import Segment, SegmentReader, Text
from stoker.service.text import TextModel
from stoker.service.text_worker import TextWorker
from stoker.service.transcript import Transcript
from tests.service.scripts import with_tools
from tests.service.templates import with_template
from tests.tiny_models import TURN_END, make_tiny_llama


def conversation(*turns: Turn) -> Conversation:
    return Conversation(turns)


def transcript_of(model: TextModel, stops: Sequence[str] = ()) -> Transcript:
    return Transcript(model.detokenizer(), SegmentReader(Markup()), stops)


def said(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments if isinstance(segment, Text))


def written(model: TextModel, ids: list[int]) -> str:
    transcript = transcript_of(model)
    return "".join(said(transcript.add([token])) for token in ids) + said(transcript.finish())


@given(st.text())
def test_bytes_give_every_text_back(text: str) -> None:
    assert written(ByteText(), list(text.encode())) == text


def test_half_a_character_is_held_back_until_it_is_whole() -> None:
    detokenizer = ByteText().detokenizer()
    assert [detokenizer.add(byte) for byte in "é!".encode()] == ["", "é", "!"]
    detokenizer.add("é".encode()[0])
    assert detokenizer.finish() == "\ufffd"


def test_a_real_tokenizer_renders_the_chat_template_and_gives_text_back(tiny_model: Path) -> None:
    model = load_model_text(tiny_model)
    ids = model.render(conversation(Turn("system", "Be brief."), Turn("user", "Grüße"))).ids
    assert written(model, ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGrüße<|im_end|>\n<|im_start|>assistant\n"
    )
    assert TURN_END in model.stop_ids


def test_of_a_prompt_far_too_long_only_the_beginning_is_looked_at(tiny_model: Path) -> None:
    model = load_model_text(tiny_model)
    assert len(model.encode("x" * 100_000, most=1000)) == 8000
    assert len(model.encode("x" * 9_000)) == 9_000
    assert len(model.encode("<|im_start|>" * 1_000, most=1_000)) == 1_000, "long tokens are no reason to refuse"


def test_stop_ids_of_both_configurations_are_used(tmp_path: Path) -> None:
    folder = make_tiny_llama(tmp_path / "model", layers=1)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [65, 66]}))
    assert {65, 66, TURN_END} <= set(load_model_text(folder).stop_ids)


def test_a_model_folder_says_how_calls_are_written_and_tokens_are_drawn(tiny_model: Path, tmp_path: Path) -> None:
    model = load_model_text(with_tools(tiny_model, tmp_path / "tools"))
    assert model.recommended == Wishes(temperature=0.25, top_k=7)
    assert model.markup.call is not None
    assert (model.markup.call.start, model.markup.call.end) == ("<tool_call>", "</tool_call>")
    assert load_model_text(tiny_model).markup == Markup()
    turns = (Turn("user", "x"), Turn("assistant", calls=(ToolCall("c", "look", '{"at": "y"}'),)), Turn("user", "z"))
    asked = Conversation(turns, tools=(Tool("look", None, {"type": "object"}),))
    text = written(model, model.render(asked).ids)
    assert '"name": "look"' in text
    assert '<tool_call>look {"at": "y"}</tool_call>' in text


def test_a_template_that_refuses_names_the_messages(tiny_model: Path, tmp_path: Path) -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    model = load_model_text(with_template(tiny_model, tmp_path / "strict", template))
    with pytest.raises(InvalidMessages, match="roles must alternate") as caught:
        model.render(conversation(Turn("user", "x")))
    assert caught.value.param == "messages"


def test_a_model_without_a_chat_template_is_not_one_to_chat_with(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(TextModelError, match="chat template"):
        load_model_text(with_template(tiny_model, tmp_path / "base", None))


async def test_a_worker_is_ready_when_its_tokenizer_is_loaded() -> None:
    worker = TextWorker(None)
    assert not worker.ready
    await worker.load()
    assert worker.ready
    assert await worker.render(conversation(Turn("user", "x")))
    worker.close()


async def test_a_long_prompt_does_not_hold_up_the_event_loop(tiny_model: Path) -> None:
    worker = TextWorker(tiny_model)
    await worker.load()
    encoding = asyncio.create_task(worker.render(conversation(Turn("user", "word " * 200_000))))
    turns = 0
    while not encoding.done():
        turns += 1
        await asyncio.sleep(0)
    worker.close()
    assert len((await encoding).ids) > 1_000_000
    assert turns > 10


def test_a_transcript_counts_the_tokens_it_used_and_stops_at_a_stop_string() -> None:
    transcript = transcript_of(ByteText(), ["END"])
    assert transcript.add(b"so E") == [Text("so ")]
    assert transcript.add(b"NDless") == []
    assert (transcript.stopped_by, transcript.tokens, transcript.finish()) == ("END", 6, [])


def test_a_transcript_lets_go_of_what_was_no_stop_string_after_all() -> None:
    transcript = transcript_of(ByteText(), ["END"])
    assert transcript.add(b"the EN") == [Text("the ")]
    assert transcript.finish() == [Text("EN")]
