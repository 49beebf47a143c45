"""A service process and its engine process, started as the watchdog would start them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import aiohttp
import psutil

from stoker.config import Engine, EngineEndpoint, EngineProcess, Server, ServiceProcess, Simulated, Telemetry
from stoker.engine.blas import preload_environment

DEADLINE_S = 20.0
CHAT = "/v1/chat/completions"
POLL_S = 0.01
ADMIN_TOKEN = "a token of the tree"


class Rig:
    """One service that listens on `url`, and at most one engine at a time, each incarnation of the next epoch.

    A `real` engine runs the model that the service has the tokenizer of.
    """

    def __init__(
        self,
        folder: Path,
        *,
        server: Server | None = None,
        simulated: Simulated | None = None,
        telemetry: Telemetry | None = None,
        max_running: int = 16,
        max_waiting: int = 128,
        model_name: str = "tiny",
        model_path: Path | None = None,
        real: bool = False,
        speculation: Literal["auto", "off"] = "auto",
        send_buffer_bytes: int | None = None,
    ) -> None:
        self._folder = folder
        self._server = server or Server()
        self._telemetry = telemetry or Telemetry()
        self._engine_settings = Engine(
            kind="mlx" if real else "simulated",
            simulated=simulated or Simulated(),
            max_running=max_running,
            max_waiting=max_waiting,
            heartbeat_s=0.02,
            speculation=speculation,
        )
        self._model_name = model_name
        self._model_path = model_path
        self.socket = folder / "engine.sock"
        self.service_socket = self.socket
        """Where the service looks for its engine."""
        self._epoch = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        if send_buffer_bytes is not None:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self._listening.set_inheritable(True)
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.service: asyncio.subprocess.Process | None = None
        self.engine: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Both at once, and ready."""
        await asyncio.gather(self.start_service(), self._spawn_engine())
        await self.until_status("/health/ready", 200)

    async def start_service(self, *argv: str, log: Path | None = None) -> asyncio.subprocess.Process:
        """Answers `/health/live` when this returns. `argv` stands in for `-m stoker.service`."""
        endpoint = EngineEndpoint(
            name="default",
            model_name=self._model_name,
            model_path=self._model_path,
            socket=self.service_socket,
            context_tokens=None,
        )
        settings = ServiceProcess(
            server=self._server,
            telemetry=self._telemetry,
            listen_fd=self._listening.fileno(),
            engine=endpoint,
            admin_token_sha256=hashlib.sha256(ADMIN_TOKEN.encode()).hexdigest(),
        )
        path = self._folder / "service.json"
        path.write_text(settings.model_dump_json())
        with contextlib.ExitStack() as files:
            output = None if log is None else files.enter_context(log.open("wb"))
            self.service = await asyncio.create_subprocess_exec(
                sys.executable,
                *(argv or ("-m", "stoker.service")),
                str(path),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(self._listening.fileno(),),
            )
        await self.get("/health/live")
        return self.service

    async def start_engine(self) -> None:
        """The next incarnation; the service is ready when this returns."""
        await self._spawn_engine()
        await self.until_status("/health/ready", 200)

    @contextlib.asynccontextmanager
    async def engines_that_follow_each_other(self) -> AsyncIterator[None]:
        """While this is open, each engine that ends has a successor at once."""

        async def keep_one() -> None:
            while True:
                if self.engine is None:
                    await self._spawn_engine()
                else:
                    await self.engine.wait()
                    self.engine = None

        keeping = asyncio.create_task(keep_one())
        try:
            yield
        finally:
            keeping.cancel()

    async def _spawn_engine(self) -> None:
        self._epoch += 1
        settings = EngineProcess(
            name="default",
            model_name=self._model_name,
            model_path=self._model_path if self._engine_settings.kind == "mlx" else None,
            socket=self.socket,
            kv_path=self._folder / "kv",
            epoch=self._epoch,
            engine=self._engine_settings,
        )
        path = self._folder / "engine.json"
        path.write_text(settings.model_dump_json())
        self.engine = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "stoker.engine", str(path)),
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **preload_environment(os.environ)},
        )

    async def kill_engine(self) -> None:
        """SIGKILL; the service knows it when this returns."""
        assert self.engine is not None
        self.engine.kill()
        await self.engine.wait()
        self.engine = None
        await self.until_status("/health/ready", 503)

    async def stop(self) -> None:
        for process in (self.service, self.engine):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
        self._listening.close()

    async def get(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(self.url + path, timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as response,
        ):
            return response.status, await response.text()

    async def until_status(self, path: str, status: int) -> None:
        async for _ in _polls():
            if (await self.get(path))[0] == status:
                return

    async def metric(self, name: str) -> float | None:
        """The value of one series, None when it is absent."""
        _, text = await self.get("/metrics")
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return None if found is None else float(found.group(1))

    async def until_metric(self, name: str, value: float) -> None:
        async for _ in _polls():
            if await self.metric(name) == value:
                return

    async def until_files(self, most: int) -> None:
        """The service has no more open files, connections included, than that."""
        assert self.service is not None
        process = psutil.Process(self.service.pid)
        async for _ in _polls():
            if process.num_fds() <= most:
                return

    @contextlib.asynccontextmanager
    async def post(
        self, body: dict[str, Any] | bytes, path: str = CHAT, headers: dict[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as http,
            http.post(self.url + path, data=data, headers=headers) as response,
        ):
            yield response

    async def error(self, body: dict[str, Any] | bytes) -> tuple[int, dict[str, Any]]:
        """Status and error of a request that is refused."""
        async with self.post(body) as response:
            answer = await response.json()
            return response.status, answer["error"]


async def _polls() -> AsyncIterator[None]:
    """Moments to look at another process again, until it is too late."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            yield
            await asyncio.sleep(POLL_S)


def ask(text: str = "Tell me a story.", **more: Any) -> dict[str, Any]:
    """A request with a fixed seed, so that its answer is always the same."""
    return {"model": "default", "messages": [{"role": "user", "content": text}], "seed": 7} | more


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The data events of a stream, `[DONE]` excluded."""
    async for line in response.content:
        if line.startswith(b"data: ") and line != b"data: [DONE]\n":
            yield json.loads(line.removeprefix(b"data: "))


def delta(event: dict[str, Any]) -> str:
    """The text of one event."""
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))


async def text_of(stream: AsyncIterator[dict[str, Any]], at_least: int | None = None) -> str:
    """The text of a stream; of its next events until there are `at_least` characters, if that is given."""
    text = ""
    async for event in stream:
        assert "error" not in event, event
        text += delta(event)
        if at_least is not None and len(text) >= at_least:
            break
    return text


@contextlib.asynccontextmanager
async def raw_connection(
    rig: Rig, body: dict[str, Any], receive_buffer_bytes: int | None = None
) -> AsyncIterator[socket.socket]:
    """A request sent on a bare socket, for clients that misbehave; closed at the end, if not before."""
    with socket.socket() as client:
        if receive_buffer_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", rig.port))
        data = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {rig.url}\r\nContent-Length: {len(data)}\r\n\r\n"
        await loop.sock_sendall(client, head.encode() + data)
        yield client
