"""Tags in a model's text: however it arrives, it is cut into the same fragments, and no client sees half a tag."""

from __future__ import annotations

import json
from itertools import pairwise

# The real package: the stand-in that the service imports in its own process must not get in other tests' way.
import mlx_lm  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tool_parsers import gemma4, glm47, kimi_k2, mistral, qwen3_coder

from stoker.service.conversation import Tool, ToolCall
from stoker.service.markup import CallFormat, Markup
from stoker.service.segments import Reasoning, Segment, SegmentReader, Text, merged
from stoker.service.tools import HERMES, LLAMA

THINK = ("<think>", "</think>")
QWEN = Markup(think=THINK, call=HERMES)
CODER = Markup(call=CallFormat(qwen3_coder.tool_call_start, qwen3_coder.tool_call_end, qwen3_coder.parse_tool_call))
MISTRAL = Markup(call=CallFormat(mistral.tool_call_start, mistral.tool_call_end, mistral.parse_tool_call))
GEMMA = Markup(call=CallFormat(gemma4.tool_call_start, gemma4.tool_call_end, gemma4.parse_tool_call))
GLM = Markup(think=THINK, call=CallFormat(glm47.tool_call_start, glm47.tool_call_end, glm47.parse_tool_call))
KIMI = Markup(call=CallFormat(kimi_k2.tool_call_start, kimi_k2.tool_call_end, kimi_k2.parse_tool_call))
META = Markup(call=LLAMA)
NOISY = Markup(think=THINK, noise=("<|sep|>",))

ALL = [QWEN, CODER, MISTRAL, GEMMA, GLM, KIMI, META, NOISY, Markup()]

WEATHER = Tool("get_weather", "The weather somewhere", {"type": "object", "properties": {"days": {"type": "integer"}}})

RECORDED = [
    (
        QWEN,
        "<think>\nThe user wants the weather.\n</think>\n\nLet me look.\n\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}\n</tool_call>',
        [
            Reasoning("The user wants the weather."),
            Text("Let me look."),
            ("get_weather", {"city": "Köln", "days": 2}),
        ],
    ),
    (
        QWEN,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "A"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "B"}}\n</tool_call>',
        [("get_weather", {"city": "A"}), ("get_weather", {"city": "B"})],
    ),
    (
        CODER,
        "I'll check.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n"
        "</parameter>\n</function>\n</tool_call>",
        [Text("I'll check."), ("get_weather", {"city": "Oslo", "days": 3})],
    ),
    (
        MISTRAL,
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]',
        [("get_weather", {"city": "Paris"})],
    ),
    (
        MISTRAL,
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}[TOOL_CALLS]get_weather[ARGS]{"city": "Bari"}',
        [("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Bari"})],
    ),
    (
        META,
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome"}}',
        [("get_weather", {"city": "Rome"})],
    ),
    (
        META,
        '\n{"name": "get_weather", "parameters": {"city": "X"}}; {"name": "get_weather", "parameters": {}}',
        [("get_weather", {"city": "X"}), ("get_weather", {})],
    ),
    (
        GEMMA,
        'Sure.<|tool_call>call:get_weather{city:<|"|>Ulm {a}<|"|>,days:2}<tool_call|>',
        [Text("Sure."), ("get_weather", {"city": "Ulm {a}", "days": 2})],
    ),
    (
        GLM,
        "<think>Hm.</think>\nOne moment.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Bern</arg_value>"
        "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>",
        [Reasoning("Hm."), Text("One moment."), ("get_weather", {"city": "Bern", "days": 3})],
    ),
    (
        KIMI,
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Graz"}<|tool_call_end|><|tool_calls_section_end|>',
        [("get_weather", {"city": "Graz"})],
    ),
    (META, "The sets {1} and {2}.", [Text("The sets {1} and {2}.")]),
    (NOISY, "So <|sep|>it is", [Text("Soit is")]),
]
TEXTS = [text for _, text, _ in RECORDED]


def read(markup: Markup, pieces: list[str], *, in_reasoning: bool = False) -> list[Segment]:
    reader = SegmentReader(markup, (WEATHER,), in_reasoning=in_reasoning)
    segments = [segment for piece in pieces for segment in reader.feed(piece)]
    return merged([*segments, *reader.finish()])


def plain(segments: list[Segment]) -> list[object]:
    """Calls as name and arguments: their ids are random."""
    return [
        (segment.name, json.loads(segment.arguments)) if isinstance(segment, ToolCall) else segment
        for segment in segments
    ]


@pytest.mark.parametrize(("markup", "text", "expected"), RECORDED)
def test_what_models_write_is_understood(markup: Markup, text: str, expected: list[object]) -> None:
    assert plain(read(markup, [text])) == expected
    assert plain(read(markup, list(text))) == expected


def cut_at(text: str, places: set[int]) -> list[str]:
    borders = [0, *sorted(place for place in places if place < len(text)), len(text)]
    return [text[begin:end] for begin, end in pairwise(borders)]


@given(st.sampled_from(RECORDED), st.data())
def test_each_familys_answer_is_read_the_same_wherever_it_is_cut(
    recorded: tuple[Markup, str, list[object]], data: st.DataObject
) -> None:
    markup, text, expected = recorded
    places = data.draw(st.sets(st.integers(1, len(text) - 1)))
    assert plain(read(markup, cut_at(text, places))) == expected


pieces_of_tags = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<tool",
        "</",
        "<",
        ">",
        " ",
        "\n",
        "a",
        "{",
        "}",
        "é",
        "<|sep|>",
    ]
)
any_text = st.lists(pieces_of_tags, max_size=14).map("".join) | st.sampled_from(TEXTS)


@given(
    any_text,
    st.sets(st.integers(1, 200)),
    st.sampled_from(ALL),
    st.booleans(),
)
def test_any_chunking_gives_the_fragments_of_the_whole(
    text: str, places: set[int], markup: Markup, in_reasoning: bool
) -> None:
    whole = plain(read(markup, [text], in_reasoning=in_reasoning))
    assert plain(read(markup, cut_at(text, places), in_reasoning=in_reasoning)) == whole


@given(any_text, st.sets(st.integers(1, 200)))
def test_no_tag_is_ever_in_the_text(text: str, places: set[int]) -> None:
    for segment in read(QWEN, cut_at(text, places)):
        if isinstance(segment, Text):
            assert "<think>" not in segment.text
            assert "</think>" not in segment.text
            assert "<tool_call>" not in segment.text
            assert "</tool_call>" not in segment.text


@given(any_text)
def test_without_tags_to_look_for_every_text_comes_out_as_it_is(text: str) -> None:
    assert "".join(segment.text for segment in read(Markup(), list(text)) if isinstance(segment, Text)) == text


@pytest.mark.parametrize(
    "broken",
    [
        '{"name": "get_weather", "argum',
        '{"arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "not json"}',
        '{"name": "f", "arguments": {"a": NaN}}',
        "[]",
        "I changed my mind",
    ],
)
def test_a_broken_call_becomes_text_without_its_tags(broken: str) -> None:
    assert read(QWEN, [f"Well. <tool_call>{broken}</tool_call>"]) == [Text("Well." + broken)]


def test_a_call_whose_end_tag_is_missing_counts_if_it_is_complete() -> None:
    assert plain(read(QWEN, ['<tool_call>{"name": "f", "arguments": {"a": 1}}'])) == [("f", {"a": 1})]


def test_arguments_that_are_json_text_are_read() -> None:
    assert plain(read(QWEN, ['<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>'])) == [("f", {"a": 1})]


def test_an_answer_may_begin_in_the_middle_of_reasoning() -> None:
    assert read(QWEN, ["hm\n</think>\n\nYes"], in_reasoning=True) == [Reasoning("hm"), Text("Yes")]
    assert read(QWEN, ["hm "], in_reasoning=True) == [Reasoning("hm")]


def test_text_streams_while_it_comes() -> None:
    reader = SegmentReader(QWEN)
    assert reader.feed("Hello <") == [Text("Hello")]
    assert reader.feed("b> is bold") == [Text(" <b> is bold")]
