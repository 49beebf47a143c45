"""Recorded traffic: its times, lengths and shared prefixes are played, and nothing else of it is needed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from stoker.soak.errors import TraceUnusable
from stoker.soak.workloads import Conversation, Workload, workload
from stoker.soak.workloads.arrivals import Closed
from stoker.soak.workloads.words import TOKENS_PER_WORD

LINES = [
    {"timestamp": 0, "input_length": 1100, "output_length": 40, "hash_ids": [1, 2, 3]},
    {"timestamp": 1500, "input_length": 1500, "output_length": 60, "hash_ids": [1, 2, 4]},
    {"timestamp": 1200, "input_length": 512, "output_length": 0, "hash_ids": [9]},
]


def written(folder: Path, *lines: Any) -> str:
    file = folder / "recorded.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return str(file)


def text(conversation: Conversation) -> str:
    return conversation.turns[0].adds[0].text


def common(one: str, other: str) -> int:
    """Words that two texts begin with."""
    pairs = zip(one.split(), other.split(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def test_requests_come_at_their_times_in_order(tmp_path: Path) -> None:
    played = list(workload(written(tmp_path, *LINES)).conversations())
    assert [each.at for each in played] == [0.0, 1.2, 1.5]
    assert [each.turns[0].max_tokens for each in played] == [40, 1, 60]


def test_prompts_share_just_the_blocks_that_the_trace_says(tmp_path: Path) -> None:
    first, other, second = workload(written(tmp_path, *LINES)).conversations()
    block_words = round(512 / TOKENS_PER_WORD)
    assert common(text(first), text(second)) == pytest.approx(2 * block_words, abs=3)
    assert common(text(first), text(other)) < 3


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_lengths_are_those_of_the_trace(tmp_path: Path, scale: float) -> None:
    played = workload(written(tmp_path, *LINES), scale=scale).conversations()
    tokens = [len(text(each).split()) * TOKENS_PER_WORD for each in played]
    assert tokens == pytest.approx([1100 * scale, 512 * scale, 1500 * scale], abs=20)


def test_a_closed_loop_goes_on_with_new_texts(tmp_path: Path) -> None:
    played: Workload = workload(written(tmp_path, *LINES), arrivals=Closed(2))
    assert played.streams == 2
    six = list(itertools.islice(played.conversations(), 6))
    assert len({text(each) for each in six}) == 6
    assert common(text(six[0]), text(six[3])) < 3


@pytest.mark.parametrize(
    ("line", "said"), [({"timestamp": 1}, "line 1.*input_length"), (["no"], "line 1"), (None, "line 1")]
)
def test_a_line_that_is_no_request_is_named(tmp_path: Path, line: Any, said: str) -> None:
    with pytest.raises(TraceUnusable, match=said):
        workload(written(tmp_path, line))


def test_an_empty_or_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceUnusable, match="no request"):
        workload(written(tmp_path))
    with pytest.raises(TraceUnusable, match="cannot read"):
        workload(str(tmp_path / "none.jsonl"))
