"""Tiny random models of each cache family, in memory, built from mlx-lm's own classes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map

from stoker.engine.kv_cost import KvBudget
from stoker.engine.memory import MemoryPlan, kv_cost
from stoker.engine.ragged import Mode, RaggedModel

VOCABULARY = 256

_COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}
_ALTERNATING = ["sliding_attention", "full_attention"] * 2


@dataclass(frozen=True)
class Family:
    """A kind of model: what it is called, how mlx-lm builds it, and how its rows may share a pass."""

    name: str
    module: str
    mode: Mode
    config: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


FAMILIES = [
    Family("plain", "llama", Mode.PACKED),
    Family("sliding window", "llama", Mode.PACKED, {"layer_types": _ALTERNATING, "sliding_window": 8}),
    Family("mixture of experts", "qwen3_moe", Mode.PACKED, _EXPERTS),
    Family(
        "attention sinks",
        "gpt_oss",
        Mode.PACKED,
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "layer_types": _ALTERNATING},
    ),
    Family(
        "hybrid gated delta",
        "qwen3_next",
        Mode.GROUPED,
        {
            **_EXPERTS,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "shared_expert_intermediate_size": 32,
            "partial_rotary_factor": 0.5,
            "full_attention_interval": 2,
        },
    ),
    Family(
        "latent attention",
        "deepseek_v3",
        Mode.ROWWISE,
        {
            "n_shared_experts": None,
            "n_routed_experts": None,
            "kv_lora_rank": 32,
            "q_lora_rank": None,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 16,
            "num_key_value_heads": 4,
            "rope_scaling": None,
            "moe_intermediate_size": 32,
        },
    ),
]


def build(family: Family, seed: int = 0) -> Any:
    """The model with weights large enough to spread its logits, so that choices do not hang on ties."""
    module = importlib.import_module(f"mlx_lm.models.{family.module}")
    config = {**_COMMON, "model_type": family.module, **family.config}
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(config))
    model.update(tree_map(lambda weight: weight * 3 if weight.ndim > 1 else weight, model.parameters()))
    mx.eval(model.parameters())
    return model


def memory_for(model: RaggedModel, kv_bytes: int = 1 << 40) -> MemoryPlan:
    """A plan with so much KV and no limit otherwise."""
    return MemoryPlan(weights=0, kv=KvBudget(kv_cost(model), kv_bytes))
