"""The tiny models are real ones: mlx-lm loads them, and their tokenizer gives every text back."""

from __future__ import annotations

from pathlib import Path

import mlx_lm
import pytest

from tests.tiny_models import END_OF_TEXT, TURN_END, TURN_START, VOCABULARY, byte_characters, make_tiny_llama


def test_mlx_lm_loads_a_tiny_model_and_generates_from_it(tmp_path: Path) -> None:
    model, tokenizer = mlx_lm.load(str(make_tiny_llama(tmp_path)))
    text = mlx_lm.generate(model, tokenizer, prompt="Hello", max_tokens=8)
    assert isinstance(text, str)
    assert len(tokenizer) == VOCABULARY
    assert tokenizer.eos_token_ids == {TURN_END}


def test_any_text_survives_the_tokenizer(tmp_path: Path) -> None:
    _, tokenizer = mlx_lm.load(str(make_tiny_llama(tmp_path, layers=1)))
    text = "Grüße, 世界 👋\n\t<tag> 12 345"
    ids = tokenizer.encode(text)
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_the_chat_template_marks_turns(tmp_path: Path) -> None:
    _, tokenizer = mlx_lm.load(str(make_tiny_llama(tmp_path, layers=1)))
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True)
    assert ids[0] == TURN_START
    assert ids.count(TURN_START) == 2
    assert END_OF_TEXT not in ids


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_gives_the_same_weights(tmp_path: Path, seed: int) -> None:
    first = make_tiny_llama(tmp_path / "a", seed=seed)
    second = make_tiny_llama(tmp_path / "b", seed=seed)
    other = make_tiny_llama(tmp_path / "c", seed=seed + 1)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    assert (first / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes()


def test_every_byte_has_its_own_character() -> None:
    assert len(set(byte_characters())) == 256
