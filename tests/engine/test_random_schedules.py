"""Random lives of the real batch, for each cache family: arrivals, cancellations, little memory, reclaiming, restarts.

Whatever happens, each request ends once, says what it says alone, and leaves nothing behind.
"""

from __future__ import annotations

import functools
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import KVCache, RotatingKVCache

from stoker.engine import mlx_batch
from stoker.engine.blocks import root_hash
from stoker.engine.kv_disk import DiskTier
from stoker.engine.link import Command, Inbound, Link, OwnedEvent, Stop
from stoker.engine.loop import EngineLoop
from stoker.engine.mlx_batch import MlxBatch
from stoker.engine.pace import PrefillPace
from stoker.engine.prefix_blocks import BLOCK_TOKENS
from stoker.engine.prefix_cache import PrefixCache
from stoker.engine.protocol import (
    Cancel,
    Finished,
    FinishReason,
    Limits,
    Priority,
    Reclaim,
    RejectCode,
    Rejected,
    Sampling,
    Submit,
    Tighten,
    Tokens,
)
from stoker.engine.scheduler import Chunk, Scheduler

from .model_families import FAMILIES, VOCABULARY, Family, memory_for
from .test_mlx_batch import batch_of, eager_drafting, model_of, no_drafting, outputs, stacking_model_of

LIMITS = Limits(max_running=3, max_waiting=64, context_tokens=400)
LONGEST_TOKENS = 160
"""Every request is as long or shorter."""


@pytest.fixture(scope="module", autouse=True)
def memory_runs_out_early() -> Iterator[None]:
    """By mlx-lm's own 256 tokens at a time, short rows would have all their KV from the first token on, and with room
    for 64 tokens of output for certain none would ever be preempted."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (KVCache, RotatingKVCache):
            patch.setattr(kind, "step", 8)
        patch.setattr(mlx_batch, "SURE_TOKENS", 2)
        yield


class WatchedBatch(MlxBatch):
    """Checks before each step that its KV fits, and after it that there is no more of it than was counted."""

    def launch(self, chunks: Sequence[Chunk]) -> None:
        assert len(self._rows) == 1 or self.has_room_after(chunks)
        super().launch(chunks)
        kept = self._prefixes.nbytes if self._prefixes is not None else 0
        # What short rows attend to together is beside the budget, with a bound of its own.
        kept += self._model.stacked_nbytes
        assert (self.memory().kv or 0) <= self._own_nbytes([]) + kept


@dataclass
class History:
    """What was heard of each request, over all lives."""

    submitted: dict[str, Submit] = field(default_factory=dict)
    said: dict[str, list[int]] = field(default_factory=dict)
    ends: dict[str, FinishReason] = field(default_factory=dict)
    preemptions: int = 0

    def submit(self, request: Submit) -> Submit:
        self.submitted[request.id] = request
        self.said[request.id] = []
        return request

    def hear(self, owned: OwnedEvent) -> None:
        match owned.event:
            case Tokens(id=name, position=position, ids=ids):
                assert name not in self.ends
                assert position == len(self.said[name])
                self.said[name].extend(ids)
            case Finished(id=name, reason=reason):
                assert name not in self.ends
                self.ends[name] = reason
            case Rejected(code=code):
                assert code is RejectCode.QUEUE_FULL

    def unfinished(self) -> list[Inbound]:
        """As they go to the next life, with all that they have said."""
        left = [request for name, request in self.submitted.items() if name not in self.ends]
        return [Command(0, msgspec.structs.replace(each, emitted=list(self.said[each.id]))) for each in left]


class ScriptedLink(Link):
    """One entry of the script a step; then the engine dies at once, or ends once nothing is left to do."""

    def __init__(self, history: History, script: Sequence[Sequence[Inbound]], dies: bool) -> None:
        super().__init__(self._hear, lambda model, limits: None, lambda owner, level, freed: None)
        self._history = history
        self._script = list(script)
        self._dies = dies

    def receive(self, wait: bool) -> list[Inbound]:
        if self._script:
            return list(self._script.pop(0))
        return [Stop()] if self._dies or wait else []

    def _hear(self, events: Sequence[OwnedEvent]) -> None:
        for owned in events:
            self._history.hear(owned)


class Lives:
    """One engine after the other over the same folder, each with little memory for KV."""

    def __init__(self, family: Family, folder: Path, kv_rows: float, *, drafts: bool, stacks: bool) -> None:
        self.history = History()
        self._model = stacking_model_of(family.name) if stacks else model_of(family.name)
        self._runs_ahead = not stacks
        self._folder = folder
        self._memory = memory_for(self._model)
        self._memory = memory_for(self._model, int(kv_rows * self._memory.kv.cost.of(LONGEST_TOKENS)))
        self._drafts = drafts and self._model.trims

    def live(self, script: Sequence[Sequence[Inbound]], dies: bool) -> None:
        """One life; `script` is what arrives before each step."""
        self._model.drop_stack()
        disk = DiskTier(self._folder, 1 << 30, version="v1") if self._model.resumes else None
        prefixes = None if disk is None else PrefixCache(ROOT, self._memory.kv.nbytes, disk, self._model)
        batch = WatchedBatch(
            self._model,
            name="test",
            limits=LIMITS,
            vocabulary=VOCABULARY,
            memory=self._memory,
            grammars=None,
            drafting=eager_drafting() if self._drafts else no_drafting(),
            prefixes=prefixes,
            runs_ahead=self._runs_ahead,
        )
        scheduler = Scheduler(LIMITS.max_running, LIMITS.max_waiting, lambda decoding, prefilling: 16)
        link = ScriptedLink(self.history, script, dies)
        EngineLoop(link, scheduler, batch, PrefillPace(32, 0.1), time.monotonic).run()
        self.history.preemptions += link.reading.preemptions
        scheduler.check_integrity()
        if dies:
            if disk is not None:
                disk.close()
            return
        assert scheduler.idle
        batch.check_integrity()
        assert prefixes is None or prefixes.pinned_nbytes == 0
        batch.reclaim(2)
        batch.reclaim(2)
        assert batch.memory().kv == 0
        batch.close()


ROOT = root_hash(model="test", mlx_lm="test", caches=["KVCache"], block_tokens=BLOCK_TOKENS, kv="f32")
SAMPLINGS = [Sampling(seed=1, temperature=0), Sampling(seed=2, presence_penalty=0.5)]
MOST_TOKENS = 30


@dataclass(frozen=True)
class Arrival:
    """A request; prompts of one conversation begin alike."""

    conversation: int
    prompt_tokens: int
    max_tokens: int
    sampling: int
    batch: bool = False

    def request(self, name: str) -> Submit:
        source = random.Random(self.conversation)
        prompt = [source.randrange(VOCABULARY) for _ in range(150)][: self.prompt_tokens]
        priority = Priority.BATCH if self.batch else Priority.INTERACTIVE
        return Submit(name, prompt, [], SAMPLINGS[self.sampling], self.max_tokens, [], priority=priority)


@functools.cache
def alone(family: str, arrival: Arrival) -> list[int]:
    if arrival.batch or arrival.max_tokens < MOST_TOKENS:
        return alone(family, replace(arrival, max_tokens=max(MOST_TOKENS, arrival.max_tokens), batch=False))[
            : arrival.max_tokens
        ]
    return outputs(batch_of(model_of(family), no_drafting()), [arrival.request("alone")])["alone"]


arrivals = st.builds(
    Arrival,
    st.integers(0, 1),
    st.sampled_from([5, 70, 130]),
    st.integers(1, MOST_TOKENS),
    st.integers(0, 1),
    st.booleans(),
)
cancellations = st.integers(0, 30)
reclaims = st.builds(Reclaim, st.integers(0, 3))
tightenings = st.builds(Tighten, st.none() | st.integers(1, 2), st.none() | st.integers(4, 8), st.booleans())
moments = st.lists(st.one_of(arrivals, arrivals, arrivals, cancellations, reclaims, tightenings), max_size=2)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@settings(deadline=None, max_examples=8)
@given(
    lives=st.lists(st.lists(moments, min_size=2, max_size=8), min_size=1, max_size=2),
    kv_rows=st.floats(1.0, 3.0),
    drafts=st.booleans(),
    stacks=st.booleans(),
)
def test_whatever_happens_each_request_says_what_it_says_alone_and_nothing_is_left(
    family: Family,
    lives: list[list[list[Arrival | int | Reclaim | Tighten]]],
    kv_rows: float,
    drafts: bool,
    stacks: bool,
) -> None:
    arrived: dict[str, Arrival] = {}
    cancelled: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        run = Lives(family, Path(folder), kv_rows, drafts=drafts, stacks=stacks)

        def inbound(what: Arrival | int | Reclaim | Tighten) -> Inbound:
            match what:
                case Arrival():
                    name = f"r{len(arrived)}"
                    arrived[name] = what
                    return Command(0, run.history.submit(what.request(name)))
                case int(number):
                    cancelled.add(f"r{number}")
                    return Command(0, Cancel(f"r{number}"))
                case _:
                    return Command(0, what)

        for life in lives:
            resumed = run.history.unfinished()
            run.live([resumed, *([inbound(what) for what in moment] for moment in life)], dies=True)
        run.live([run.history.unfinished()], dies=False)
    assert run.history.ends.keys() == arrived.keys()
    for name, arrival in arrived.items():
        said, whole = run.history.said[name], alone(family.name, arrival)
        if run.history.ends[name] is FinishReason.CANCELLED:
            assert name in cancelled
            assert said == whole[: len(said)]
        else:
            assert said == whole


@pytest.mark.parametrize("stacks", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_rows_that_share_the_memory_of_one_take_turns(family: Family, stacks: bool, tmp_path: Path) -> None:
    """So that the property above is not true only because nothing was ever preempted."""
    run = Lives(family, tmp_path, 1.0, drafts=False, stacks=stacks)
    arrivals = {f"r{number}": Arrival(number, 20, 70, 1) for number in range(3)}
    for name, arrival in arrivals.items():
        run.history.submit(arrival.request(name))
    run.live([run.history.unfinished()], dies=False)
    assert run.history.preemptions > 0
    assert run.history.said == {name: alone(family.name, arrival) for name, arrival in arrivals.items()}
