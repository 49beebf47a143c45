"""What a stacks file says is what is started, and what it cannot mean is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.soak.compare.entries import ENTRIES
from stoker.soak.compare.stacks import Stack, contender, read
from stoker.soak.errors import StacksUnusable

KNOWN = {"stoker", "mlx_lm.server", "vllm-mlx", "llama-server", "ollama", "omlx", "vllm", "sglang"}
WORDS = {"model", "port", "other_port", "folder", "streams", "python", "stoker"}


def test_every_server_that_users_ask_about_is_ready() -> None:
    assert set(ENTRIES) == KNOWN


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_ready_entry_can_be_filled_in(name: str) -> None:
    entry = ENTRIES[name]
    words = {word: f"<{word}>" for word in WORDS}
    command = " ".join(part.format_map(words) for part in entry.command)
    assert "<port>" in command or "<port>" in entry.environment["OLLAMA_HOST"].format_map(words)
    assert entry.ready.startswith("/")


def test_what_the_file_says_replaces_the_ready_entry() -> None:
    stack = Stack(name="other", entry="vllm-mlx", program="/opt/vllm-mlx", arguments=("--max-num-seqs", "4"))
    made = contender(stack, "/models/demo")
    assert made.name == "other"
    assert made.entry.command[0] == "/opt/vllm-mlx"
    assert made.entry.command[1:3] == ("serve", "{model}")
    assert made.entry.command[-2:] == ("--max-num-seqs", "4")


def test_a_server_nobody_knows_needs_a_command() -> None:
    with pytest.raises(StacksUnusable, match="no ready entry"):
        contender(Stack(name="mystery"), "demo")
    assert contender(Stack(name="mystery", command=("serve", "{port}")), "demo").entry.ready == "/health"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stack = 3", "stack"),
        ("", "stack"),
        ("[[stack]]\nname = 'stoker'\nspeed = 9", "speed"),
        ("[[stack]\nname = 'stoker'", "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "stacks.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StacksUnusable, match=said):
        read(file)
