"""A draft model changes how fast requests go and never what they say."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import mlx_lm.utils
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.config import Engine
from stoker.engine import models
from stoker.engine.draft_model import CATCH_UP_TOKENS, DraftModel
from stoker.engine.drafting import MAX_MODEL_DRAFT, Drafting
from stoker.engine.errors import ModelError
from stoker.engine.loading import load_batch
from stoker.engine.protocol import DraftMethod, Grammar, GrammarKind, Sampling, Submit
from stoker.engine.ragged import RaggedModel
from tests.tiny_models import make_tiny_llama

from .model_families import FAMILIES, VOCABULARY, build
from .processes import settings_of
from .test_mlx_batch import (
    batch_of,
    constrained,
    model_of,
    no_drafting,
    outputs,
    prompt_of,
    requests_of,
    together,
)


class AlwaysTheModel(Drafting):
    """Asks the draft model for every row at every chance."""

    def __init__(self, model: RaggedModel, vocabulary: int = VOCABULARY) -> None:
        super().__init__(enabled=True, clock=time.perf_counter, model=DraftModel(model, vocabulary))

    def _plan(self, row_ids: Sequence[str], stacked: Collection[str]) -> None:
        for drafter in self._drafters.values():
            drafter.planned, drafter.method = MAX_MODEL_DRAFT, DraftMethod.DRAFT_MODEL


def another_model(seed: int = 1) -> RaggedModel:
    return RaggedModel.probe(build(FAMILIES[0], seed))


@settings(deadline=None, max_examples=20)
@given(requests=requests_of, alike=st.booleans())
def test_a_draft_model_never_changes_an_output(requests: list[Submit], alike: bool) -> None:
    model = model_of("plain")
    batch = batch_of(model, AlwaysTheModel(model if alike else another_model()))
    assert outputs(batch, requests) == outputs(batch_of(model, no_drafting()), requests)
    assert batch.memory().kv == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_model_that_thinks_like_its_target_draws_like_it(temperature: float) -> None:
    model = model_of("plain")
    requests = [
        Submit(f"r{i}", prompt_of(i, 20), [], Sampling(seed=i, temperature=temperature), 60, []) for i in range(4)
    ]
    drafts = together(batch_of(model, AlwaysTheModel(model)), requests).drafts[DraftMethod.DRAFT_MODEL]
    assert drafts.accepted > 0.9 * drafts.drafted > 100


@settings(deadline=None, max_examples=10)
@given(requests=requests_of, cut=st.floats(0.1, 0.9))
def test_a_resumed_request_goes_on_with_a_draft_model_as_if_nothing_had_happened(
    requests: list[Submit], cut: float
) -> None:
    model = model_of("plain")
    whole = outputs(batch_of(model, no_drafting()), requests)
    for request in requests:
        emitted = whole[request.id][: int(cut * request.max_tokens)]
        resumed = Submit(request.id, request.prompt, emitted, request.sampling, request.max_tokens, [])
        rest = outputs(batch_of(model, AlwaysTheModel(another_model())), [resumed])[request.id]
        assert emitted + rest == whole[request.id]


def test_a_draft_model_reads_a_long_prompt_in_pieces_and_then_drafts() -> None:
    model = model_of("plain")
    prompt = prompt_of(1, CATCH_UP_TOKENS)[: CATCH_UP_TOKENS + 50]
    run = together(batch_of(model, AlwaysTheModel(model)), [Submit("r", prompt, [], Sampling(seed=0), 60, [])])
    assert run.drafts[DraftMethod.DRAFT_MODEL].accepted > 20


def test_drafts_of_a_model_keep_to_the_grammar(tmp_path: Path) -> None:
    batch = constrained(tmp_path / "model")
    model, config = mlx_lm.utils.load_model(make_tiny_llama(tmp_path / "draft", seed=5, layers=1))
    grammar = Grammar(GrammarKind.REGEX, "[a-z]{40}")
    requests = [Submit(f"r{i}", [1, 2, i], [], Sampling(seed=i), 60, [256], grammar) for i in range(3)]
    drafting = AlwaysTheModel(RaggedModel.probe(model), config["vocab_size"])
    assert outputs(batch(drafting), requests) == outputs(batch(no_drafting()), requests)


def test_a_draft_model_whose_vocabulary_is_padded_otherwise_serves(tmp_path: Path) -> None:
    model, _ = mlx_lm.utils.load_model(make_tiny_llama(tmp_path / "wide", vocabulary=300))
    target = model_of("plain")
    requests = [Submit("r", prompt_of(1, 20), [], Sampling(seed=3), 30, [])]
    batch = batch_of(target, AlwaysTheModel(RaggedModel.probe(model)))
    assert outputs(batch, requests) == outputs(batch_of(target, no_drafting()), requests)


def test_an_engine_with_a_draft_model_says_what_it_says_without(tmp_path: Path) -> None:
    target, draft = make_tiny_llama(tmp_path / "target"), make_tiny_llama(tmp_path / "draft", layers=1)
    models.check_draft(target, draft)
    plain = settings_of(tmp_path, Engine(), target)
    drafted = plain.model_copy(update={"draft_model_path": draft})
    requests = [Submit("r", prompt_of(1, 20), [], Sampling(seed=3), 40, [])]
    without, with_one = load_batch(plain), load_batch(drafted)
    assert (with_one.memory().weights or 0) > (without.memory().weights or 0)
    assert outputs(with_one, requests) == outputs(without, requests)
    for batch in (without, with_one):
        batch.close()


def test_a_draft_model_with_another_vocabulary_is_refused_by_name(tmp_path: Path) -> None:
    target = make_tiny_llama(tmp_path / "target")
    draft = Path(shutil.copytree(target, tmp_path / "draft"))
    tokenizer = json.loads((draft / "tokenizer.json").read_text())
    tokenizer["added_tokens"][0]["content"] = "<|other|>"
    (draft / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelError, match=r"cannot draft for .*tokens differ.*same tokenizer"):
        models.check_draft(target, draft)
