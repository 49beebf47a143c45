"""Settings of the model and of how it is run; faults and the simulated engine are for tests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from .section import Count, Seconds, Section


class Fault(Section):
    """A fault of the simulated engine, at the moment it has made `after_tokens` tokens in one incarnation. Those of an
    MLX engine are `leak` and `fragment`, from its step `after_tokens` on, with real arrays.

    With `prompt_contains` it is the fault of a request: it comes when one whose prompt has that text, and whose output
    has reached `after_tokens`, is computed.
    """

    kind: Literal["crash", "hang", "leak", "slow", "fragment"]
    """`crash` ends the process by SIGKILL, `hang` stops stepping, `leak` grows memory, `slow` stretches every step,
    `fragment` frees buffers that nobody can use again."""
    after_tokens: Annotated[int, Field(ge=0)] = 0
    """Tokens of the incarnation before the fault begins; 0 is at once."""
    amount: Annotated[float, Field(gt=0)] = 1.0
    """`leak`: bytes a step; `fragment`: bytes by which the buffers differ. `slow`: factor on the step time."""
    epochs: Annotated[int, Field(ge=0)] = 0
    """Only in the first so many incarnations (epochs up to this one); 0 is in all."""
    on_signal: bool = False
    """Begins when the engine's process gets SIGUSR2, whatever `after_tokens` says: for soak runs with chaos `leak`."""
    prompt_contains: str | None = None
    """Text of the requests whose fault it is; absent, it is the engine's own."""


class Simulated(Section):
    """The deterministic engine for tests of everything around the engine."""

    load_s: Annotated[float, Field(ge=0)] = 0.0
    """How long loading takes."""
    step_s: Annotated[float, Field(ge=0)] = 0.001
    """How long one step takes."""
    vocabulary: Count = 256
    """Token ids are below this."""
    token_bytes: Count = 1
    """Memory that each token of a running request takes."""
    memory_limit_bytes: Count | None = None
    """What it says that it may use; absent, it knows no limit."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong, and when."""
    script: str | None = None
    """The output of every request; absent, it is made up."""


class Engine(Section):
    """The model and how it is run."""

    kind: Literal["mlx", "simulated"] = "mlx"
    """`mlx` runs the model; `simulated` makes up deterministic tokens."""
    model: str = "demo"
    """`demo`, the path of an MLX model folder, or a hub name such as `mlx-community/Qwen3-8B-4bit`."""
    max_running: Count = 16
    """Rows that decode in one batch."""
    max_waiting: Count = 128
    """Requests that wait inside the engine."""
    context_tokens: Count | None = None
    """Bound of prompt + output for one request; absent, the model's own window."""
    prefill_chunk: Count = 256
    """Prompt tokens computed in one step while nothing else runs."""
    target_inter_token_ms: Count = 100
    """Prompts are computed beside running streams in pieces that keep the time between two tokens about this, or at
    nearly three times what the streams take by themselves, whichever is longer."""
    speculation: Literal["auto", "off"] = "auto"
    """Drafts from the row's own text, verified in the batch; `auto` drafts where it pays. Never changes an output."""
    draft_model: str | None = None
    """A smaller model with the same tokenizer, named as `model` is, which drafts where a row's own text suggests
    nothing; absent, none does."""
    prefix_cache_ram_bytes: Annotated[int, Field(ge=0)] = 2 * 1024 * 1024 * 1024
    """KV of earlier requests kept in memory for prompts that begin alike; 0 keeps none, in memory or on disk."""
    prefix_cache_disk_bytes: Annotated[int, Field(ge=0)] = 8 * 1024 * 1024 * 1024
    """KV kept on disk, so that a restarted engine goes on warm; 0 keeps none."""
    kv_bits: Literal[8, 4] | None = None
    """Quantize the keys and values of all requests, running or kept, to so many bits: room for two or four times the
    tokens of a 16-bit model, at some cost of quality, more so at 4. Absent, they stay as the model computes them."""
    kv_group_size: Literal[32, 64, 128] = 64
    """How many neighbouring numbers share a scale where keys and values are quantized; it must divide the model's head
    width."""
    prefix_cache_bits: Literal[8] | None = None
    """Quantize only what the prefix cache keeps: half the memory and disk of a 16-bit model's, a quarter of a 32-bit
    one's; what a prompt finds there is then almost, not exactly, what it would compute. Not beside `kv_bits`."""
    cache_limit_bytes: Count = 1024 * 1024 * 1024
    """Bound of MLX's pool of freed buffers."""
    memory_limit_bytes: Count | None = None
    """Memory of the engine; absent, what the GPU or the control group allows, else what the machine has."""
    kv_budget_bytes: Count | None = None
    """KV of all running requests and of the prefix cache in memory; absent, what the weights, the pool and a tenth of
    the memory for everything else leave. Requests wait, and running ones take turns, when it is used up."""
    heartbeat_s: Seconds = 0.25
    """Time between two heartbeats."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong in an MLX engine, for tests of what watches it."""
    simulated: Simulated = Simulated()
    """Used when `kind` is `simulated`."""

    @model_validator(mode="after")
    def _quantized_once(self) -> Engine:
        if self.kv_bits is not None and self.prefix_cache_bits is not None:
            raise PydanticCustomError(
                "quantized_twice",
                "`prefix_cache_bits` has nothing to do where `kv_bits` is set; remove one of them",
            )
        return self
