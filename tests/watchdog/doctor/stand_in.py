"""What answers instead of a tree, at the ports that the real door holds: a service, a watchdog, and what is said of
an engine."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import msgspec

from stoker import __version__
from stoker.config import Canonical, Config, EngineProcess
from stoker.engine import models
from stoker.engine.errors import ModelError
from stoker.engine.protocol import Heartbeat, Memory, MissReason, Phase, PrefixCacheUse, Tier
from stoker.service.auth import KeyFileError, Keys
from stoker.service.canonical import canonical
from stoker.service.conversation import Conversation, Turn
from stoker.service.errors import InvalidApiKey
from stoker.watchdog.doctor.hardware import HOT
from stoker.watchdog.doctor.runtime import PROBE, rendered
from stoker.watchdog.door import Premises
from stoker.watchdog.samples import HostReading
from stoker.watchdog.shed_level import NOTHING, Shed
from stoker.watchdog.status import EngineStatus, LastRestart, ServiceStatus, Status
from stoker.watchdog.supervisor import State

GB = 10**9
ENGINE_PID = 4242
Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextlib.contextmanager
def listening(answer: Answer, on: socket.socket | None = None) -> Iterator[str]:
    """A server on loopback, or on a socket that somebody holds already; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Not on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=on is None)
    if on is not None:
        server.socket.close()
        server.socket = on.dup()
        server.server_address = on.getsockname()
    thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def say(handler: BaseHTTPRequestHandler, body: Any, code: int = 200) -> None:
    """JSON, or the text as it is."""
    handler.send_response(code)
    handler.end_headers()
    handler.wfile.write((body if isinstance(body, str) else json.dumps(body)).encode())


class Load(msgspec.Struct, frozen=True):
    """What clients want of an engine, whichever incarnation."""

    running_bytes: int = GB
    prefix_bytes: int = GB
    limit_bytes: int | None = None
    prompts: tuple[str, ...] = ()
    """System prompts."""


def prefix_cache_use(load: Load, config: Config) -> PrefixCacheUse:
    """What a cache of that size finds in those prompts, as the service would hand them on."""
    engine = config.engine
    held = engine.prefix_cache_ram_bytes + engine.prefix_cache_disk_bytes >= load.prefix_bytes
    known = [_handed_on(prompt, config.server.canonical) for prompt in load.prompts]
    hits = [_alike(*pair) if held else 0 for pair in pairwise(known)]
    missed = sum(map(len, known)) - sum(hits)
    why = MissReason.DIVERGED if held else MissReason.EVICTED
    return PrefixCacheUse(len(known), {Tier.RAM: sum(hits)}, missed, {why: len(known)} if known else {})


def _alike(one: str, other: str) -> int:
    """How many characters they begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _handed_on(system_prompt: str, rules: Canonical) -> str:
    handed_on = canonical(Conversation((Turn("system", system_prompt), Turn("user", "Go on."))), rules)
    return "".join(turn.text for turn in handed_on.turns)


class StandIn:
    """One life of a tree, from a start to its end."""

    def __init__(
        self, premises: Premises, load: Load, host: Callable[[], HostReading], begin_engine: Callable[[int], None]
    ) -> None:
        """`host` is the machine that it runs on; `begin_engine` hears of every new engine."""
        self._premises = premises
        self._load = load
        self._host = host
        self._begin_engine = begin_engine
        self.service = ServiceStatus(ENGINE_PID + 1, State.READY, "", 0, None, None)
        self._keys = self._read_keys()
        self.template = self._read_template()
        self.engine = self._incarnation(1)

    def restart_engine(self) -> None:
        """As a planned restart does; an engine that finds its model damaged stays away."""
        self.engine = self._incarnation(self.engine.epoch + 1)

    def engine_died(self, reason: str, last_words: str, at: datetime) -> None:
        """It is back already."""
        death = LastRestart(reason, at, -9, 1.5, (last_words,))
        self.engine = msgspec.structs.replace(self.engine, restarts=1, last_restart=death)

    def service_died(self, reason: str, last_words: str, at: datetime) -> None:
        death = LastRestart(reason, at, -9, 1.5, (last_words,))
        self.service = msgspec.structs.replace(self.service, restarts=1, last_restart=death)

    def hang(self) -> None:
        """Work is there, and no step ends."""
        assert self.engine.heartbeat is not None
        stuck = msgspec.structs.replace(self.engine.heartbeat, running=1, last_step_age=60.0)
        self.engine = msgspec.structs.replace(self.engine, heartbeat=stuck)

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        match handler.path:
            case "/status":
                say(handler, msgspec.json.encode(self.status()).decode())
            case "/engines/default/restart":
                ended = self.engine.epoch
                self.restart_engine()
                say(handler, {"epoch": ended}, 202)
            case _ if not self._knows(handler):
                say(handler, {"error": {"message": "who are you?"}}, 401)
            case "/v1/models":
                say(handler, {"data": [{"id": self._premises.model_name}]})
            case "/v1/chat/completions" if self.engine.state is not State.READY:
                say(handler, {"error": {"message": "no engine"}}, 503)
            case "/v1/chat/completions":
                self._chat(handler, json.loads(body))
            case _:
                say(handler, {"error": {"message": "no such path"}}, 404)

    def _chat(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """A model that sees no question has nothing to say."""
        template = self.template or "{{ messages[0].content }}"
        text = "ready" if PROBE in rendered(template) else ""
        if body.get("stream"):
            event = json.dumps({"choices": [{"delta": {"content": text}}]})
            say(handler, f"data: {event}\n\n" * 4 + "data: [DONE]\n\n")
            return
        message: dict[str, Any] = {"content": text}
        if "tools" in body and "tools" in template:
            message["tool_calls"] = [{"function": {"name": "report", "arguments": '{"number": 1}'}}]
        say(handler, {"choices": [{"message": message}], "usage": {"completion_tokens": 1}})

    def _knows(self, handler: BaseHTTPRequestHandler) -> bool:
        try:
            return self._keys is None or bool(self._keys.check(handler.headers))  # type: ignore[arg-type]
        except InvalidApiKey:
            return False

    def status(self) -> Status:
        service = msgspec.structs.replace(self.service, url=self._premises.api.url)
        ready = self.engine.state is State.READY and service.state is State.READY
        home = str(self._premises.paths.home)
        return Status(ready, __version__, home, datetime.now(UTC), (self.engine,), service, self._shed())

    def _shed(self) -> Shed:
        level = self._host().thermal_level or 0
        return Shed(1, f"the system's thermal level is {level}") if level >= HOT else NOTHING

    def _incarnation(self, epoch: int) -> EngineStatus:
        self._tell_engine(epoch)
        engine = EngineStatus("default", "demo", State.READY, ENGINE_PID, epoch, 0, None, self._heartbeat(epoch), None)
        try:
            assert self._premises.model_path is not None
            models.check(self._premises.model_path)
        except ModelError as error:
            died = LastRestart("exited with 78", datetime.now(UTC), 78, None, (str(error),))
            return msgspec.structs.replace(
                engine, state=State.CIRCUIT_OPEN, heartbeat=None, pid=None, failure="it stays away", last_restart=died
            )
        self._begin_engine(ENGINE_PID)
        return engine

    def _tell_engine(self, epoch: int) -> None:
        held, paths = self._premises, self._premises.paths
        told = EngineProcess(
            name="default",
            model_name=held.model_name,
            model_path=held.model_path,
            socket=paths.socket("default"),
            kv_path=paths.kv("default"),
            epoch=epoch,
            engine=held.config.engine,
        )
        paths.child_settings("engine-default").write_text(told.model_dump_json())

    def _heartbeat(self, epoch: int) -> Heartbeat:
        engine = self._premises.config.engine
        kv = self._load.running_bytes + min(self._load.prefix_bytes, engine.prefix_cache_ram_bytes)
        kv = min(kv, engine.kv_budget_bytes or kv)
        memory = Memory(active=2 * GB + kv, cache=GB // 2, weights=2 * GB, kv=kv, limit=self._load.limit_bytes)
        use = prefix_cache_use(self._load, self._premises.config)
        return Heartbeat(epoch, ENGINE_PID, Phase.READY, 100, 0.1, 0, 0, memory, prefix_cache=use)

    def _read_keys(self) -> Keys | None:
        """A service whose keys cannot be read ends at once."""
        path = self._premises.config.server.api_keys
        try:
            return None if path is None else Keys.read(path)
        except KeyFileError as error:
            died = LastRestart("exited with 78", datetime.now(UTC), 78, None, (str(error),))
            self.service = msgspec.structs.replace(
                self.service, state=State.FAILED, failure=died.reason, last_restart=died
            )
            return None

    def _read_template(self) -> str | None:
        assert self._premises.model_path is not None
        settings = json.loads((self._premises.model_path / "tokenizer_config.json").read_bytes())
        template: str | None = settings.get("chat_template")
        return template
