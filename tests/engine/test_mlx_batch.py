"""The batch on MLX: whatever shares it, and however it is sped up, a request says what it says alone."""

from __future__ import annotations

import functools
import json
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.batch import Sampled
from stoker.engine.drafting import Drafting
from stoker.engine.grammar import GrammarCompiler
from stoker.engine.link import Command, Inbound, Link, OwnedEvent, Stop
from stoker.engine.loop import EngineLoop
from stoker.engine.mlx_batch import MlxBatch
from stoker.engine.pace import PrefillPace
from stoker.engine.protocol import (
    Cancel,
    DraftMethod,
    Finished,
    FinishReason,
    Grammar,
    GrammarKind,
    Limits,
    Rejected,
    Sampling,
    Submit,
    TokenLogprob,
    Tokens,
)
from stoker.engine.ragged import RaggedModel
from stoker.engine.ragged_attention import hook_attention
from stoker.engine.scheduler import Chunk, Scheduler
from stoker.engine.speculative import MAX_DRAFT, Draft
from tests.tiny_models import END_OF_TEXT, make_tiny_llama

from .model_families import FAMILIES, VOCABULARY, Family, build, memory_for

hook_attention()
LIMITS = Limits(max_running=4, max_waiting=64, context_tokens=400)


class EagerDrafting(Drafting):
    """Drafts at every chance, whether it pays or not."""

    def _plan(self, row_ids: Sequence[str], stacked: Collection[str]) -> None:
        for row_id, drafter in self._drafters.items():
            drafter.planned, drafter.method = MAX_DRAFT, self._offer(row_id).method


class KnowingDrafting(EagerDrafting):
    """Drafts what each row will really say, up to a wrong token now and then."""

    def __init__(self, outputs: dict[str, list[int]], seed: int) -> None:
        super().__init__(enabled=True, clock=time.perf_counter)
        self._outputs = outputs
        self._random = random.Random(seed)
        self._said: dict[str, int] = {}
        self.accepted = 0

    def extend(self, row_id: str, tokens: Sequence[int]) -> None:
        super().extend(row_id, tokens)
        self._said[row_id] = self._said.get(row_id, 0) + len(tokens)
        self.accepted += len(tokens) - 1

    def drafts(self, limits: Mapping[str, int]) -> dict[str, Draft]:
        return {row_id: Draft(self._guess(row_id, limit)) for row_id, limit in limits.items()}

    def _guess(self, row_id: str, limit: int) -> list[int]:
        said = self._said.get(row_id, 0)
        guess = self._outputs[row_id][said : said + min(limit, self._random.randint(0, MAX_DRAFT))]
        if guess and self._random.random() < 0.5:
            guess[self._random.randrange(len(guess))] = self._random.randrange(VOCABULARY)
        return guess


def no_drafting() -> Drafting:
    return Drafting(enabled=False, clock=time.perf_counter)


def eager_drafting() -> Drafting:
    return EagerDrafting(enabled=True, clock=time.perf_counter)


@functools.cache
def model_of(name: str) -> RaggedModel:
    return RaggedModel.probe(build(next(family for family in FAMILIES if family.name == name)))


@functools.cache
def stacking_model_of(name: str) -> RaggedModel:
    """The same model; its short rows attend together where it allows that."""
    model = RaggedModel.probe(build(next(family for family in FAMILIES if family.name == name)))
    model.stack_short_rows(limit_bytes=1 << 30)
    return model


def batch_of(
    model: RaggedModel,
    drafting: Drafting,
    vocabulary: int = VOCABULARY,
    grammars: GrammarCompiler | None = None,
    *,
    runs_ahead: bool = True,
) -> MlxBatch:
    return MlxBatch(
        model,
        name="test",
        limits=LIMITS,
        vocabulary=vocabulary,
        memory=memory_for(model),
        grammars=grammars,
        drafting=drafting,
        runs_ahead=runs_ahead,
    )


class Run:
    """One loop over a script of what arrives before each step."""

    def __init__(self, batch: MlxBatch, script: Sequence[Sequence[Inbound]]) -> None:
        self.events: list[OwnedEvent] = []
        self.freed: list[int] = []
        self.scheduler = Scheduler(
            LIMITS.max_running, LIMITS.max_waiting, lambda decoding, prefilling: 8 if decoding else 32
        )
        pending = list(script)

        class Scripted(Link):
            def receive(self, wait: bool) -> list[Inbound]:
                if pending:
                    return list(pending.pop(0))
                return [Stop()] if wait else []

        link = Scripted(
            deliver=self.events.extend,
            announce=lambda model, limits: None,
            reclaimed=lambda owner, level, freed: self.freed.append(freed),
        )
        EngineLoop(link, self.scheduler, batch, PrefillPace(32, 0.1), time.monotonic).run()
        self.drafts = link.reading.drafts

    def tokens(self, name: str) -> list[int]:
        return [i for o in self.events if isinstance(o.event, Tokens) and o.event.id == name for i in o.event.ids]

    def logprobs(self, name: str) -> list[TokenLogprob]:
        of_one = [o.event for o in self.events if isinstance(o.event, Tokens) and o.event.id == name]
        return [logprob for event in of_one for logprob in event.logprobs or []]

    def ends(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for owned in self.events:
            if isinstance(owned.event, Finished | Rejected):
                counts[owned.event.id] = counts.get(owned.event.id, 0) + 1
        return counts


def together(batch: MlxBatch, requests: Sequence[Submit]) -> Run:
    return Run(batch, [[Command(0, request) for request in requests]])


def outputs(batch: MlxBatch, requests: Sequence[Submit]) -> dict[str, list[int]]:
    run = together(batch, requests)
    return {request.id: run.tokens(request.id) for request in requests}


samplings = st.builds(
    Sampling,
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([0.0, 0.7, 1.2]),
    top_p=st.sampled_from([1.0, 0.9]),
    top_k=st.sampled_from([0, 20]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.8]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
    logit_bias=st.sampled_from([{}, {7: 5.0, 9: -100.0}]),
    top_logprobs=st.sampled_from([None, 0, 3]),
)


def prompt_of(seed: int, length: int) -> list[int]:
    """Random, with a stretch that comes twice, so that there is something to draft from."""
    source = random.Random(seed)
    once = [source.randrange(VOCABULARY) for _ in range(length)]
    return once + once[: length // 2]


requests_of = st.lists(
    st.tuples(samplings, st.integers(0, 1000), st.integers(1, 60), st.integers(1, 25)), min_size=1, max_size=6
).map(
    lambda rows: [
        Submit(f"r{i}", prompt_of(seed, length), [], sampling, max_tokens, [])
        for i, (sampling, seed, length, max_tokens) in enumerate(rows)
    ]
)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@settings(deadline=None, max_examples=8)
@given(requests=requests_of)
def test_a_batch_of_mixed_requests_says_what_each_says_alone(family: Family, requests: list[Submit]) -> None:
    model = model_of(family.name)
    batch = batch_of(model, no_drafting())
    in_batch = outputs(batch, requests)
    for request in requests:
        assert outputs(batch_of(model, no_drafting()), [request]) == {request.id: in_batch[request.id]}
        assert len(in_batch[request.id]) == request.max_tokens
    assert batch.memory().kv == 0


@pytest.mark.parametrize("name", ["plain", "mixture of experts"])
@settings(deadline=None, max_examples=20)
@given(requests=requests_of, seed=st.integers(0, 1000))
def test_drafting_never_changes_an_output(name: str, requests: list[Submit], seed: int) -> None:
    model = model_of(name)
    assert model.trims
    plain = outputs(batch_of(model, no_drafting()), requests)
    assert outputs(batch_of(model, KnowingDrafting(plain, seed)), requests) == plain
    assert outputs(batch_of(model, eager_drafting()), requests) == plain


@pytest.mark.parametrize(("runs_ahead", "steps"), [(False, [1, 2, 3]), (True, [2, 3, 3])])
def test_tokens_are_handed_out_before_the_next_step_unless_the_device_works_alone(
    runs_ahead: bool, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(model_of("plain"), no_drafting(), runs_ahead=runs_ahead)
    launch, collect = batch.launch, batch.collect
    launched: list[Sequence[Chunk]] = []
    handed_out_at: list[int] = []

    def watched_launch(chunks: Sequence[Chunk]) -> None:
        launched.append(chunks)
        launch(chunks)

    def watched_collect(leave: int) -> list[Sampled]:
        sampled = collect(leave)
        handed_out_at.extend(len(launched) for _ in sampled)
        return sampled

    monkeypatch.setattr(batch, "launch", watched_launch)
    monkeypatch.setattr(batch, "collect", watched_collect)
    together(batch, [Submit("a", [1, 2, 3], [], Sampling(seed=0), 3, [])])
    assert handed_out_at == steps


def test_drafts_that_are_right_are_accepted_many_tokens_a_step() -> None:
    requests = [Submit(f"r{i}", prompt_of(i, 20), [], Sampling(seed=i), 60, []) for i in range(4)]
    model = model_of("plain")
    drafting = KnowingDrafting(outputs(batch_of(model, no_drafting()), requests), seed=1)
    run = together(batch_of(model, drafting), requests)
    assert run.ends() == {request.id: 1 for request in requests}
    assert drafting.accepted > 100


@settings(deadline=None, max_examples=15)
@given(requests=requests_of, cut=st.floats(0.1, 0.9))
def test_a_resumed_request_goes_on_as_if_nothing_had_happened(requests: list[Submit], cut: float) -> None:
    model = model_of("plain")
    whole = outputs(batch_of(model, no_drafting()), requests)
    for request in requests:
        emitted = whole[request.id][: int(cut * request.max_tokens)]
        resumed = Submit(request.id, request.prompt, emitted, request.sampling, request.max_tokens, [])
        rest = outputs(batch_of(model, eager_drafting()), [resumed])[request.id]
        assert emitted + rest == whole[request.id]


@settings(deadline=None, max_examples=25)
@given(
    data=st.data(),
    arrivals=st.lists(requests_of, min_size=1, max_size=4),
    eager=st.booleans(),
)
def test_cancelled_rows_leave_the_others_alone_and_nothing_behind(
    data: st.DataObject, arrivals: list[list[Submit]], eager: bool
) -> None:
    model = model_of("plain")
    script: list[list[Inbound]] = []
    kept: list[Submit] = []
    cancelled: list[Submit] = []
    for group, requests in enumerate(arrivals):
        named = [Submit(f"{group}-{r.id}", r.prompt, [], r.sampling, r.max_tokens, []) for r in requests]
        script.append([Command(0, request) for request in named])
        script.extend([] for _ in range(data.draw(st.integers(0, 6))))
        for request in named:
            (cancelled if data.draw(st.booleans()) else kept).append(request)
        script.append([Command(0, Cancel(request.id)) for request in named if request in cancelled])
    batch = batch_of(model, eager_drafting() if eager else no_drafting())
    run = Run(batch, script)
    run.scheduler.check_integrity()
    assert run.ends() == {request.id: 1 for request in (*kept, *cancelled)}
    assert batch.memory().kv == 0
    for request in kept:
        assert run.tokens(request.id) == outputs(batch_of(model, no_drafting()), [request])[request.id]


def test_logprobs_are_of_the_models_own_distribution() -> None:
    """The likeliest token of a greedy draw is the drawn one, and a bias changes the draw but not what is reported."""
    prompt = prompt_of(3, 20)
    plain = Sampling(seed=0, temperature=0, top_logprobs=3)
    run = together(batch_of(model_of("plain"), no_drafting()), [Submit("r", prompt, [], plain, 5, [])])
    for token, logprob in zip(run.tokens("r"), run.logprobs("r"), strict=True):
        assert logprob.top[0] == (token, logprob.logprob)
        assert [value for _, value in logprob.top] == sorted((value for _, value in logprob.top), reverse=True)
    biased = Sampling(seed=0, temperature=0, top_logprobs=1, logit_bias={11: 1000.0})
    forced = together(batch_of(model_of("plain"), no_drafting()), [Submit("r", prompt, [], biased, 1, [])])
    assert forced.tokens("r") == [11]
    assert forced.logprobs("r")[0].top == run.logprobs("r")[0].top[:1]


def test_penalties_forbid_what_they_are_strong_enough_to_forbid() -> None:
    request = Submit("r", prompt_of(4, 20), [], Sampling(seed=0, temperature=0, presence_penalty=1000.0), 60, [])
    tokens = outputs(batch_of(model_of("plain"), eager_drafting()), [request])["r"]
    assert len(set(tokens)) == len(tokens) == 60


@pytest.mark.parametrize("drafting", [no_drafting, eager_drafting])
def test_an_output_follows_its_grammar_beside_free_rows(tmp_path: Path, drafting: Any) -> None:
    folder = make_tiny_llama(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    model, _ = mlx_lm.utils.load_model(folder)
    vocabulary, end = config["vocab_size"], config["eos_token_id"]
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "people": {"type": "integer"}, "eu": {"type": "boolean"}},
        "required": ["city", "people", "eu"],
        "additionalProperties": False,
    }
    grammar = Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))
    constrained = [
        Submit(f"g{i}", [1, 2, 3 + i], [], Sampling(seed=i, temperature=t), 200, [end], grammar)
        for i, t in enumerate((0.0, 1.0, 1.5))
    ]
    free = Submit("free", [5, 6, 7], [], Sampling(seed=9), 30, [])
    compiler = GrammarCompiler(folder, vocabulary, [end])
    ragged = RaggedModel.probe(model)

    def batch() -> MlxBatch:
        return batch_of(ragged, drafting(), vocabulary, compiler)

    said = outputs(batch(), [*constrained, free])
    assert said["free"] == outputs(batch(), [free])["free"]
    for request in constrained:
        text = bytes(token for token in said[request.id] if token < 256).decode()
        if len(said[request.id]) < request.max_tokens:
            answer = json.loads(text)
            assert answer["city"] in ("Paris", "Rome")
            assert isinstance(answer["people"], int)
        middle = said[request.id][: len(said[request.id]) // 2]
        resumed = Submit(request.id, request.prompt, middle, request.sampling, 200, [end], grammar)
        assert middle + outputs(batch(), [resumed])[request.id] == said[request.id]


def test_a_grammar_that_cannot_be_used_is_rejected_with_its_reason(tmp_path: Path) -> None:
    folder = make_tiny_llama(tmp_path / "model")
    compiler = GrammarCompiler(folder, 259, [END_OF_TEXT])
    broken = Submit("r", [1], [], Sampling(seed=0), 5, [], Grammar(GrammarKind.REGEX, "(unclosed"))
    run = together(batch_of(model_of("plain"), no_drafting(), grammars=compiler), [broken])
    (rejected,) = [owned.event for owned in run.events]
    assert isinstance(rejected, Rejected)
    assert "regex" in rejected.message


def constrained(folder: Path) -> Callable[[Drafting], MlxBatch]:
    """Batches of a model with a tokenizer, in whose vocabulary ids below 256 are bytes."""
    make_tiny_llama(folder)
    model, config = mlx_lm.utils.load_model(folder)
    compiler, ragged = GrammarCompiler(folder, config["vocab_size"], [END_OF_TEXT]), RaggedModel.probe(model)
    return lambda drafting: batch_of(ragged, drafting, config["vocab_size"], compiler)


def test_a_grammar_that_becomes_too_complex_ends_its_request_with_the_reason(tmp_path: Path) -> None:
    batch = constrained(tmp_path / "model")
    grammar = Grammar(GrammarKind.LARK, "start: " + '"x"* ' * 20)
    says_x = Sampling(seed=0, temperature=0, logit_bias={ord("x"): 1000.0})
    hard = Submit("hard", [1, 2], [], says_x, 100, [END_OF_TEXT], grammar)
    free = Submit("free", [5, 6, 7], [], Sampling(seed=9), 30, [])
    run = together(batch(no_drafting()), [hard, free])
    (end,) = [o.event for o in run.events if isinstance(o.event, Finished) and o.event.id == "hard"]
    assert end.reason is FinishReason.GRAMMAR_FAILED
    assert "cannot be followed further" in end.message
    assert set(run.tokens("hard")) == {ord("x")}
    assert run.tokens("free") == outputs(batch(no_drafting()), [free])["free"]


def test_what_a_grammar_leaves_no_choice_about_is_drafted_and_right(tmp_path: Path) -> None:
    batch = constrained(tmp_path / "model")
    grammar = Grammar(GrammarKind.REGEX, "(abcdefghijklmnop|ponmlkjihgfedcba){4}")
    request = Submit("r", [1, 2], [], Sampling(seed=0), 100, [END_OF_TEXT], grammar)
    run = together(batch(eager_drafting()), [request])
    assert len(run.tokens("r")) == 64
    drafts = run.drafts[DraftMethod.GRAMMAR]
    assert drafts.accepted == drafts.drafted > 20


def test_memory_is_back_where_it_was_after_many_requests() -> None:
    model = model_of("plain")
    batch = batch_of(model, eager_drafting())
    source = random.Random(0)

    def storm() -> None:
        requests = [
            Submit(f"r{i}", prompt_of(i, source.randint(1, 80)), [], Sampling(seed=i), source.randint(1, 20), [])
            for i in range(30)
        ]
        together(batch, requests)
        mx.clear_cache()

    storm()
    before = mx.get_active_memory()
    storm()
    assert abs(mx.get_active_memory() - before) <= 0.02 * before
