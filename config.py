"""The one configuration: a TOML file, read once at the door into frozen settings.

`load` finds, parses and checks the file; `Paths` says where everything under `$STOKER_HOME` lives. The settings that
a child process gets (`EngineProcess`, `ServiceProcess`) are written by the watchdog as JSON and read by `process`.
A bad key or value raises `ConfigError` with its name, what is wrong with it and, where there is one, the nearest
valid key.
"""

from __future__ import annotations

import difflib
import hashlib
import ipaddress
import json
import os
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

# A Unix socket's path is bounded: 108 bytes on Linux, 104 on macOS, the final NUL included.
MAX_SOCKET_PATH_BYTES = 103

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class ConfigError(Exception):
    """The configuration cannot be used; the message is one sentence for a person."""


class Section(BaseModel):
    """Base of all settings: immutable, no unknown keys, every field described."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Canonical(Section):
    """Lines of system prompts that change from request to request, and would make the prefix cache miss each time."""

    drop_billing_header: bool = True
    """Leave out lines that begin with `x-anthropic-billing-header:`; they say nothing to a model."""
    move_dates: bool = False
    """Move lines such as `Today's date: 2026-01-31` to the end of the system prompt, so that a new day costs less."""


class Server(Section):
    """The HTTP API that clients talk to."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback needs `api_keys` or `allow_anyone`."""
    port: Port = 8000
    """Port of the API; 0 lets the system choose."""
    max_body_bytes: Count = 32 * 1024 * 1024
    """Largest request body; a larger one gets 413."""
    default_max_tokens: Count = 4096
    """Output bound of a request that names none (the context window bounds it too)."""
    max_queue: Count = 128
    """Requests in flight at once, running ones included; one more gets 429, or takes the place of the newest request
    of a client that holds more than its share of those that wait."""
    max_queue_tokens: Count = 1_000_000
    """Prompt tokens of the requests that wait for a place in the engine; one more prompt gets 429, as above."""
    queue_deadline_s: Seconds = 300.0
    """How long a request may wait until the engine begins with it, before it fails with 503."""
    drain_deadline_s: Seconds = 30.0
    """How long running streams may go on after SIGTERM before they are cut."""
    keepalive_s: Seconds = 10.0
    """A stream that has nothing to say for this long gets an SSE comment."""
    resume_deadline_s: Seconds = 600.0
    """How long a request may wait for a new engine after its engine died, before it fails with 503."""
    quarantine_s: Seconds = 600.0
    """How long a request that killed the engine again and again is refused when it is sent anew."""
    shed_long_prompt_tokens: Count = 8192
    """While load is shed, a prompt longer than this is refused (from shed level 1)."""
    max_buffered_events: Count = 4096
    """Tokens that a stream holds for a slow reader; then the request leaves the engine until they are read."""
    slow_reader_deadline_s: Seconds = 300.0
    """How long a stream that is full may go without being read before it is cut."""
    api_keys: Path | None = None
    """File of the keys that clients must show, as docs/operating.md describes it; absent, anybody who can connect may
    ask. An absolute path, or one that begins with `~`."""
    allow_anyone: bool = False
    """Listen on an address that other machines reach although there are no `api_keys`; for networks that keep
    strangers out themselves, such as a container's."""
    cors_origins: tuple[str, ...] = ()
    """Origins such as `https://chat.example.org` whose pages may use the API from a browser."""
    canonical: Canonical = Canonical()
    """Changing lines of system prompts."""

    @field_validator("api_keys")
    @classmethod
    def _found_from_anywhere(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        path = path.expanduser()
        if not path.is_absolute():
            raise PydanticCustomError("relative_path", "Input should be an absolute path, or begin with `~`")
        return path

    @model_validator(mode="after")
    def _no_open_door(self) -> Server:
        if self.api_keys is None and not self.allow_anyone and not _is_loopback(self.host):
            raise PydanticCustomError(
                "open_door",
                "`host` = {host} lets other machines in, and no `api_keys` say who may come; "
                "name a file of keys, set `allow_anyone`, or listen on 127.0.0.1",
                {"host": self.host},
            )
        return self


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
    about twice what the streams take by themselves, whichever is longer."""
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


class Restart(Section):
    """When and how a child that ended is started again."""

    intensity: Count = 5
    """More than this many restarts within `period_s` open the circuit: no more restarts but a probe now and then."""
    period_s: Seconds = 120.0
    """The window in which restarts are counted."""
    backoff_initial_s: Seconds = 0.1
    """Wait before the first restart, less the time for which the child was ready; doubles with each restart inside the
    window."""
    backoff_max_s: Seconds = 30.0
    """Longest wait before a restart."""
    backoff_jitter: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the wait that is random, so that several children do not start in step."""
    probe_s: Seconds = 60.0
    """Once the circuit is open, one restart is tried after this long; it doubles up to an hour."""


class Shedding(Section):
    """When load is turned away because memory is short: the engine's against its limit, or the machine's."""

    thresholds: tuple[Share, Share, Share] = (0.9, 0.95, 0.98)
    """Shares of the memory at which shed levels 1, 2 and 3 begin, in rising order."""
    margin: Share = 0.05
    """A level can end only when memory in use is this much below its threshold."""
    hold_s: Seconds = 15.0
    """How long memory must be below that before the level ends; the next one ends no sooner than as long after it."""

    @field_validator("thresholds")
    @classmethod
    def _rising(cls, thresholds: tuple[float, float, float]) -> tuple[float, float, float]:
        if sorted(set(thresholds)) != list(thresholds):
            raise PydanticCustomError("not_rising", "Input should be three shares, each above the one before")
        return thresholds

    @model_validator(mode="after")
    def _can_end(self) -> Shedding:
        if self.margin >= self.thresholds[0]:
            raise PydanticCustomError("never_ends", "`margin` should be below the first of `thresholds`")
        return self


class Journal(Section):
    """What the watchdog remembers over restarts."""

    url: str | None = None
    """The database, as SQLAlchemy writes it: `postgresql+asyncpg://user:password@host/name` (install `asyncpg` beside
    Stoker); absent, the file stoker.db under $STOKER_HOME."""
    full_samples_s: Seconds = 6 * 3600.0
    """For so long every sample is kept, after it one a minute."""
    keep_s: Seconds = 30 * 86400.0
    """For so long samples, verdicts, actions and closed incidents are kept."""


class Canary(Section):
    """Tiny requests that the watchdog sends through the API."""

    every_s: Seconds = 180.0
    """Time between two of them."""
    compare_every_s: Seconds = 3600.0
    """Time between two comparisons of an answer with and without the prefix cache."""
    deadline_s: Seconds = 60.0
    """How long an answer may take before the canary counts as unanswered."""


class Watchdog(Section):
    """The parent of the tree and its own HTTP interface."""

    host: str = "127.0.0.1"
    """Address of the watchdog's interface; it is for this machine only."""
    port: Port = 8001
    """Port of the watchdog's interface; 0 lets the system choose."""
    restart: Restart = Restart()
    """Restart policy of every child."""
    shedding: Shedding = Shedding()
    """When load is turned away."""
    journal: Journal = Journal()
    """What is remembered."""
    canary: Canary = Canary()
    """Requests of the watchdog's own."""
    sample_s: Seconds = 1.0
    """Time between two looks at the machine and the tree."""
    pool_floor_bytes: Count = 1_500_000_000
    """A pool of freed buffers that is smaller is not worth an action."""
    detection_speed: Annotated[float, Field(ge=1)] = 1.0
    """How many seconds pass for detectors and policy in one; more than 1 is for trying them out."""
    stop_deadline_s: Seconds = 10.0
    """How long a child may take to end after SIGTERM before SIGKILL: the service gets its drain deadline on top,
    and each child a second for every 4 GB of memory that it has to give back."""
    start_deadline_s: Seconds = 120.0
    """How long a child may take to become ready before it is restarted; the engine gets a second on top for every
    50 MB of weights."""
    stall_after_s: Seconds = 10.0
    """An engine that has work and finishes no step for this long is replaced, and so is one that sends no heartbeat and
    a service that does not answer. The bound of a step grows by itself while the engine starts and where its steps are
    measured to be slow."""
    restart_drain_s: Seconds = 5.0
    """How long running requests may go on before a planned restart; what is left then pauses and goes on after it."""
    log_lines: Count = 100
    """Last lines of a child's output that are kept with every restart."""
    log_file_bytes: Count = 16 * 1024 * 1024
    """Size at which `logs/stoker.log` under `$STOKER_HOME` is set aside and a new one begun."""
    log_files: Count = 5
    """How many that were set aside are kept; the oldest goes."""


class Telemetry(Section):
    """What is recorded of each request, and where it goes. The last 200 traces are in the service whatever is set."""

    otlp_endpoint: str | None = None
    """URL of an OpenTelemetry collector that traces are sent to, such as `http://127.0.0.1:4317`; absent, none are."""
    otlp_protocol: Literal["grpc", "http"] = "grpc"
    """How that collector is spoken to; `http` is protobuf over HTTP, usually at port 4318."""
    otlp_headers: dict[str, str] = {}
    """Headers that it is sent, for instance a key."""
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of requests whose traces are sent and linked from metrics; errors, resumes and the slowest always are sent.
    What a caller's `traceparent` says about its own trace comes first."""
    capture_content: bool = False
    """Put prompts and answers into traces. They are what users wrote: leave this off unless you may read that."""

    @field_validator("otlp_endpoint")
    @classmethod
    def _url(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise PydanticCustomError("no_url", "Input should begin with http:// or https://")
        return endpoint


class Config(Section):
    """Everything that can be set."""

    server: Server = Server()
    """The HTTP API."""
    engine: Engine = Engine()
    """The model and how it is run."""
    watchdog: Watchdog = Watchdog()
    """The parent of the tree."""
    telemetry: Telemetry = Telemetry()
    """What is recorded of each request, and where it goes."""


class EngineProcess(Section):
    """What one engine process is told at its start."""

    name: str
    model_name: str
    model_path: Path | None
    draft_model_path: Path | None = None
    socket: Path
    kv_path: Path
    """Folder of the prefix cache's disk tier; this engine's alone."""
    epoch: int
    engine: Engine


class EngineEndpoint(Section):
    """Where the service finds an engine, and the model whose text it speaks (None: the simulated engine's)."""

    name: str
    model_name: str
    model_path: Path | None
    socket: Path
    context_tokens: int | None


class ServiceProcess(Section):
    """What the service process is told at its start."""

    server: Server
    telemetry: Telemetry
    listen_fd: int
    """An inherited listening socket; the watchdog holds it too, so that clients queue while the service restarts."""
    engine: EngineEndpoint
    admin_token_sha256: str | None = None
    """Hash, in hexadecimal, of the token that the watchdog shows at `/internal/`; without one nobody gets in there."""


class Paths:
    """Where things live under `$STOKER_HOME`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / "stoker.toml"
        self.models = home / "models"
        self.run = home / "run"
        self.logs = home / "logs"
        self.lock = self.run / "serve.lock"
        self.admin_token = home / "admin.token"
        self.journal_url = f"sqlite+aiosqlite:///{home / 'stoker.db'}"

    @classmethod
    def from_environment(cls) -> Paths:
        """`$STOKER_HOME`, or `~/.stoker`."""
        return cls(Path(os.environ.get("STOKER_HOME") or Path.home() / ".stoker").expanduser().absolute())

    def child_settings(self, child: str) -> Path:
        return self.run / f"{child}.json"

    def kv(self, engine: str) -> Path:
        return self.home / "kv" / engine

    def epoch(self, engine: str) -> Path:
        return self.run / f"{engine}.epoch"

    def socket(self, engine: str) -> Path:
        """The engine's Unix socket; in the system's temporary folder when the home's path is too long for one."""
        path = self.run / f"{engine}.sock"
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
            return path
        digest = hashlib.sha256(os.fsencode(self.run)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"stoker-{os.getuid()}-{digest}" / f"{engine}.sock"


def load(path: Path | None, paths: Paths, overrides: dict[str, dict[str, Any]] | None = None) -> Config:
    """Read the file at `path`, or `$STOKER_HOME/stoker.toml` if it exists, or the defaults.

    `overrides` are command-line values by section and key; they win over the file. Raises `ConfigError`.
    """
    source = path or (paths.config if paths.config.exists() else None)
    values: dict[str, Any] = {}
    if source is not None:
        try:
            values = tomllib.loads(source.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(
                f"{source} is not valid TOML: {error}. Mend that line, or start without the file."
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the configuration {source}: {error}") from error
    for section, keys in (overrides or {}).items():
        target = values.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"{source}: `{section}` must be a table, as in `[{section}]`")
        target.update(keys)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, source)) from error


def _explain(error: ValidationError, source: Path | None) -> str:
    """All problems of a configuration in one line a problem."""
    where = f"{source}: " if source is not None else ""
    return "; ".join(f"{where}{_explain_one(problem)}" for problem in error.errors(include_url=False))


def _explain_one(problem: Any) -> str:
    location = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(location, known_keys(), n=1, cutoff=0.5)
        hint = f"; did you mean `{nearest[0]}`?" if nearest else "; see `stoker config schema` for all keys"
        return f"unknown key `{location}`{hint}"
    message = problem["msg"][0].lower() + problem["msg"][1:]
    if isinstance(problem["input"], dict):
        return f"`{location}`: {message}"
    return f"`{location}` = {problem['input']!r}: {message}"


def known_keys(section: type[Section] = Config, prefix: str = "") -> list[str]:
    """Every valid dotted key, tables included."""
    keys: list[str] = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            keys.extend(known_keys(field.annotation, f"{prefix}{name}."))
    return keys


def example() -> str:
    """A configuration file with every key, its default and what it is for; `stoker.example.toml` is this text."""
    head = "Every setting with its default. Copy this to $STOKER_HOME/stoker.toml and keep only what you change."
    return "\n".join([*_comment(head), *_example_lines(Config(), "")]) + "\n"


def _example_lines(section: Section, table: str) -> Iterator[str]:
    """A table's own keys stand before its subtables, as TOML wants it."""
    subtables: list[tuple[str, Section]] = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            subtables.append((f"{table}{name}", value))
            continue
        yield from _comment(field.description or "")
        # TOML has no null: a key without a default is shown by its name alone.
        yield f"# {name} = (not set)" if value is None else f"{name} = {json.dumps(value)}"
    for name, subsection in subtables:
        yield ""
        yield from _comment(type(subsection).__doc__ or "")
        yield f"[{name}]"
        yield from _example_lines(subsection, f"{name}.")


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width=118, initial_indent="# ", subsequent_indent="# ")
