"""Keys: who may come in, who may not, and what is wrong with a file of them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anthropic
import openai
import pytest

from stoker.config import EngineEndpoint, Server, ServiceProcess, Simulated, Telemetry
from stoker.engine.protocol import Priority
from stoker.process import EXIT_UNUSABLE
from stoker.service.allowance import Allowance
from stoker.service.auth import KeyFileError, Keys
from stoker.service.errors import InvalidApiKey
from tests.service.rig import Rig, ask, events, text_of

KEY = "sk-stoker-0123456789abcdef"
HASH = hashlib.sha256(KEY.encode()).hexdigest()


def keys(folder: Path, text: str = f"# of the office\n\nalice {HASH}\n") -> Path:
    path = folder / "api.keys"
    path.write_text(text)
    return path


def test_a_key_is_known_by_its_hash_in_either_header(tmp_path: Path) -> None:
    known = Keys.read(keys(tmp_path))
    assert known.check({"Authorization": f"Bearer {KEY}"}).name == "alice"
    assert known.check({"x-api-key": KEY}).name == "alice"


def test_a_key_may_be_bounded(tmp_path: Path) -> None:
    known = Keys.read(keys(tmp_path, f"alice {HASH} tokens_per_minute=5000  requests=4\n"))
    assert known.check({"x-api-key": KEY}).allowance == Allowance(4, 5000)
    with pytest.raises(KeyFileError, match="line 1"):
        Keys.read(keys(tmp_path, f"alice {HASH} tokens=5\n"))


def test_a_key_may_be_for_batch_requests_only(tmp_path: Path) -> None:
    known = Keys.read(keys(tmp_path, f"nightly {HASH} priority=batch requests=2"))
    assert known.check({"x-api-key": KEY}).priority is Priority.BATCH
    assert Keys.read(keys(tmp_path)).check({"x-api-key": KEY}).priority is Priority.INTERACTIVE


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": KEY}, {"Authorization": "Bearer "}, {"x-api-key": HASH}, {"Authorization": f"Basic {KEY}"}],
)
def test_anything_else_is_not(tmp_path: Path, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidApiKey):
        Keys.read(keys(tmp_path)).check(headers)


@pytest.mark.parametrize(
    ("text", "told"), [("", "has no key"), (f"alice {HASH}\nbob {KEY}", "line 2 of .* is not a name"), ("x", "line 1")]
)
def test_a_file_that_cannot_be_used_says_why_and_tells_no_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(KeyFileError, match=told) as caught:
        Keys.read(keys(tmp_path, text))
    assert KEY not in str(caught.value)


async def test_without_a_key_each_api_says_so_in_its_own_form(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    rig = make_rig(server=Server(api_keys=keys(tmp_path)))
    await rig.start()
    async with rig.post(ask()) as response:
        assert response.status == 401
    stranger = openai.AsyncOpenAI(base_url=rig.url + "/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as refused:
        await stranger.models.list()
    assert refused.value.code == "invalid_api_key"
    claude = anthropic.AsyncAnthropic(base_url=rig.url, api_key="wrong", max_retries=0)
    with pytest.raises(anthropic.AuthenticationError, match="authentication_error"):
        await claude.messages.create(model="tiny", max_tokens=4, messages=[{"role": "user", "content": "x"}])
    friend = claude.with_options(api_key=KEY)
    await friend.messages.create(model="tiny", max_tokens=4, messages=[{"role": "user", "content": "x"}])
    await stranger.with_options(api_key=KEY).models.list()
    assert (await rig.get("/health/ready"))[0] == 200, "probes need no key"
    await stranger.close()
    await claude.close()


async def test_a_key_gets_what_it_may_have_and_others_their_own(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    other = hashlib.sha256(b"other").hexdigest()
    bounded = f"alice {HASH} requests=1 tokens_per_minute=60\nbob {other}\n"
    rig = make_rig(server=Server(api_keys=keys(tmp_path, bounded)), simulated=Simulated(step_s=0.01))
    await rig.start()
    alice, bob = {"x-api-key": KEY}, {"Authorization": "Bearer other"}
    async with rig.post(ask(stream=True, max_tokens=100), headers=alice) as first:
        await text_of(events(first), at_least=1)
        async with rig.post(ask(), headers=alice) as second:
            assert (second.status, (await second.json())["error"]["code"]) == (429, "too_many_at_once")
        async with rig.post(ask(n=2, max_tokens=3), headers=bob) as theirs:
            assert theirs.status == 200
        await text_of(events(first))
    async with rig.post(ask(max_tokens=1), headers=alice) as spent:
        assert (spent.status, (await spent.json())["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 < int(spent.headers["Retry-After"]) <= 200
    body = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
    async with rig.post(body, "/v1/messages", alice) as claude:
        assert (claude.status, (await claude.json())["error"]["type"]) == (429, "rate_limit_error")


def test_a_service_whose_keys_cannot_be_read_ends_for_good(tmp_path: Path) -> None:
    endpoint = EngineEndpoint(
        name="default", model_name="tiny", model_path=None, socket=tmp_path / "engine.sock", context_tokens=None
    )
    settings = tmp_path / "service.json"
    server = Server(api_keys=tmp_path / "absent")
    settings.write_text(
        ServiceProcess(server=server, telemetry=Telemetry(), listen_fd=0, engine=endpoint).model_dump_json()
    )
    ended = subprocess.run(
        [sys.executable, "-m", "stoker.service", str(settings)], capture_output=True, text=True, check=False
    )
    last = json.loads(ended.stderr.splitlines()[-1])
    assert (ended.returncode, last["event"]) == (EXIT_UNUSABLE, "unusable")
    assert "cannot read the keys" in last["error"]
