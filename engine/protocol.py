"""The words between the engine and those who use it: frozen structs, token ids only, no MLX import.

Times are seconds. `epoch` counts the engine's incarnations; a frame of an older epoch is dropped by the receiver.
Positions count the tokens of one request's output from 0, over all incarnations: a request that resumes with
three emitted ids gets its next token at position 3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

PROTOCOL_VERSION = 1

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
ReclaimLevel = Annotated[int, msgspec.Meta(ge=0, le=3)]


class Word(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of everything that travels: tagged with its class name, immutable."""


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to choose tokens. `temperature` 0 is greedy; `top_p` 1, `top_k` 0 and `min_p` 0 switch those filters off.

    `repetition_penalty` (1 is off) divides positive and multiplies negative logits of tokens in prompt and output
    (Keskar et al. 2019); `presence_penalty` and `frequency_penalty` (0 is off) are subtracted once, and once for each
    time, for tokens in the output (OpenAI's definition). `logit_bias` is added to the logits, by token id.
    `top_logprobs` None asks for no log probabilities, n for the drawn token's and the n likeliest ones'.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    top_logprobs: int | None = None

    @property
    def looks_back(self) -> bool:
        """Whether a draw depends on which tokens came before."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


class GrammarKind(StrEnum):
    """In what language a grammar's source is written."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    LARK = "lark"


class Grammar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the whole output must match. `json_object` is any JSON object and has no source.

    The Lark dialect is llguidance's (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md).
    """

    kind: GrammarKind
    source: str = ""


class Priority(StrEnum):
    """Whether somebody waits for the answer."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class Submit(Word, frozen=True, tag=True):
    """Run a request. `emitted` holds output ids the client already has; generation goes on after them.

    `max_tokens` bounds the whole output, `emitted` included. Generation ends with reason `stop` at any of `stop_ids`
    (the stop id itself is not sent). With a `grammar`, the whole output matches it or is cut by `max_tokens`. Without
    the prefix cache it is computed whole, and leaves nothing behind: to see whether the cache changes an answer.
    """

    id: str
    prompt: list[int]
    emitted: list[int]
    sampling: Sampling
    max_tokens: int
    stop_ids: list[int]
    grammar: Grammar | None = None
    priority: Priority = Priority.INTERACTIVE
    use_prefix_cache: bool = True


class Cancel(Word, frozen=True, tag=True):
    """Drop a request between two steps. Answered by `Finished(reason="cancelled")` unless it had already ended."""

    id: str


class Drain(Word, frozen=True, tag=True):
    """End as soon as nothing is left to do, after `deadline_s` in any case. Answered by `Draining`."""

    deadline_s: float


class Reclaim(Word, frozen=True, tag=True):
    """Give memory back, between two steps. Answered by `Reclaimed`. Each level includes those before it.

    1 frees MLX's pool of freed buffers. 2 halves what the prefix cache holds in RAM and, said again, leaves there only
    what running requests read; it stays that small. 3 begins with no more prompts: those that wait are handed back with
    `QUEUE_FULL`, and so is what comes. 0 lifts what 2 and 3 imposed.
    """

    level: ReclaimLevel


class Tighten(Word, frozen=True, tag=True):
    """Work with less at once, from the next step on; what is left at its default is as configured.

    At most `max_running` rows (those above end in their own time) and `chunk_tokens` of prompts a step; without
    `speculate` nothing is drafted.
    """

    max_running: AtLeastOne | None = None
    chunk_tokens: AtLeastOne | None = None
    speculate: bool = True


ToEngine = Submit | Cancel | Drain | Reclaim | Tighten


class Phase(StrEnum):
    """What an engine process is doing."""

    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one engine can take: rows decoded at once, requests waiting, tokens of one request (prompt + output).

    `kv_tokens` is how many tokens of one request its memory for KV holds, None where that is not bounded.
    """

    max_running: int
    max_waiting: int
    context_tokens: int
    kv_tokens: int | None = None


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes by kind, None where unknown. `active` includes `weights` and `kv`; `cache` is MLX's freed-buffer pool.

    `limit` bounds the whole process, `kv_budget` the KV. `arrays` counts those of weights, rows and prefix cache, each
    a buffer of its own; `arrays_limit` is how many buffers the GPU can have, where it has such a limit.
    """

    active: int | None = None
    cache: int | None = None
    peak: int | None = None
    weights: int | None = None
    kv: int | None = None
    footprint: int | None = None
    limit: int | None = None
    kv_budget: int | None = None
    arrays: int | None = None
    arrays_limit: int | None = None

    def with_footprint(self, footprint: int) -> Memory:
        """The same reading with the process's footprint, which the thread that made it does not know."""
        return msgspec.structs.replace(self, footprint=footprint)


class Timings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one request's time went in this incarnation, in seconds, and how many prompt tokens were computed, in how
    many pieces. `drafted` tokens were verified for it beside those that it drew anyway, `accepted` of them kept."""

    queue_s: float
    prefill_s: float
    decode_s: float
    computed_tokens: int
    prefill_chunks: int = 0
    drafted: int = 0
    accepted: int = 0


class Tier(StrEnum):
    """Where a cached prefix came from."""

    RAM = "ram"
    DISK = "disk"


class MissReason(StrEnum):
    """Why no more of a prompt was found in the prefix cache."""

    COLD = "cold"
    EVICTED = "evicted"
    DIVERGED = "diverged"
    VERSION = "version"
    NOT_TRIMMABLE = "not_trimmable"
    TOO_SHORT = "too_short"


class PrefixCacheUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the prefix cache was asked since the engine's start, and what it holds; a tier that is not there is absent.

    Every request is one lookup of its whole sequence: its tokens were hit in a tier or missed, and a lookup that did
    not find everything has one reason. `evictions` counts blocks that left a tier because room was made.
    """

    lookups: int = 0
    hit_tokens: dict[Tier, int] = {}
    missed_tokens: int = 0
    misses: dict[MissReason, int] = {}
    nbytes: dict[Tier, int] = {}
    evictions: dict[Tier, int] = {}


class Decoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The steps so far that computed no part of a prompt: what decoding costs by itself.

    `rows` and `tokens` (drawn by them) are sums over the steps; `context_tokens` is the KV that the last one read.
    """

    steps: int = 0
    seconds: float = 0.0
    rows: int = 0
    tokens: int = 0
    context_tokens: int = 0


class DraftMethod(StrEnum):
    """Who guessed the tokens that a step verified."""

    GRAMMAR = "grammar"
    PROMPT_LOOKUP = "prompt_lookup"
    DRAFT_MODEL = "draft_model"


class Drafts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens that were verified because a method had guessed them, and how many were right; since the start."""

    drafted: int = 0
    accepted: int = 0


class Ready(Word, frozen=True, tag=True):
    """The model is loaded. Sent once to each connection: at once if ready, otherwise when it becomes so."""

    epoch: int
    pid: int
    model: str
    limits: Limits
    version: int = PROTOCOL_VERSION


class Heartbeat(Word, frozen=True, tag=True):
    """Sent on a clock by a thread that never touches MLX; every number is a cached reading.

    `steps` counts finished engine steps. `last_step_age` is the time since the last one ended or, if later, since work
    reached the idle engine; None while the model loads. A growing age while `running` or `waiting` is above 0 means a
    stall, however well this thread feels. `busy_s`, `computed_tokens` and `step_tokens` say how long a step may take.
    """

    epoch: int
    pid: int
    phase: Phase
    steps: int
    last_step_age: float | None
    running: int
    waiting: int
    memory: Memory
    busy_s: float = 0.0
    """Seconds spent in finished steps, in all."""
    computed_tokens: int = 0
    """Tokens, of prompts and outputs, that finished steps computed, in all."""
    step_tokens: int = 0
    """Tokens that were launched and whose step has not finished."""
    prefix_cache: PrefixCacheUse = PrefixCacheUse()
    drafts: dict[DraftMethod, Drafts] = {}
    decoding: Decoding = Decoding()
    generated_tokens: int = 0
    """Tokens of outputs alone, in all."""
    finished: int = 0
    """Requests that ended here, however."""
    preemptions: int = 0
    """Times that a running request gave up its KV for others and had to wait again, since the start."""


class Draining(Word, frozen=True, tag=True):
    """The process ends on purpose and takes nothing new: a `Submit` from now on is rejected with `STOPPING`.

    Sent to every connection when a `Drain` arrives, or with the last step after SIGTERM. What is still unfinished when
    the connection ends is for the next incarnation, and no crash.
    """

    epoch: int


class FinishReason(StrEnum):
    """Why a request ended: a stop id, its token bound, its owner's wish, or a grammar that it could not be held to.

    After the last one the grammar had become too complex to follow, and the output is cut.
    """

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    GRAMMAR_FAILED = "grammar_failed"


class RejectCode(StrEnum):
    """Why a request was not taken. Only `QUEUE_FULL` and `STOPPING` are worth a retry."""

    QUEUE_FULL = "queue_full"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID = "invalid"
    STOPPING = "stopping"


class Prefill(Word, frozen=True, tag=True):
    """Progress of a prompt: `done` of `total` tokens are in the KV cache, `cached` of them were not computed.

    `tier` is where the cached ones came from (the slower one, if both), `from_disk` how many of them came from disk,
    `miss` why there are not more of them, and `diverged_at` the index of the first token at which the nearest
    remembered prompt differs, with `DIVERGED`.
    """

    id: str
    done: int
    total: int
    cached: int
    tier: Tier | None = None
    miss: MissReason | None = None
    diverged_at: int | None = None
    from_disk: int = 0


class TokenLogprob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Natural log probabilities of one position, of the model's own distribution, before temperature and filters.

    `top` is (token id, log probability) of the likeliest tokens, likeliest first.
    """

    logprob: float
    top: list[tuple[int, float]]


class Tokens(Word, frozen=True, tag=True):
    """New output ids of one request; `position` is the first one's place in the whole output.

    `logprobs` has one entry an id, for requests that asked.
    """

    id: str
    position: int
    ids: list[int]
    logprobs: list[TokenLogprob] | None = None


class Finished(Word, frozen=True, tag=True):
    """The last word about a request that was taken. `message` says more where a request could not be completed."""

    id: str
    reason: FinishReason
    timings: Timings
    message: str = ""


class Rejected(Word, frozen=True, tag=True):
    """The last word about a request that was not taken, or that is handed back with what it has emitted so far."""

    id: str
    code: RejectCode
    message: str


RequestEvent = Prefill | Tokens | Finished | Rejected


class StepEvents(Word, frozen=True, tag=True):
    """Everything one step has to say to one connection, in order."""

    epoch: int
    events: list[RequestEvent]


class Reclaimed(Word, frozen=True, tag=True):
    """A `Reclaim` is done: so many bytes, by readings before and after, are the system's again."""

    epoch: int
    level: int
    freed_bytes: int


FromEngine = Ready | Heartbeat | Draining | Reclaimed | StepEvents
