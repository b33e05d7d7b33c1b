"""Tiny random models of many architectures, and the engine options that each needs.

Weights are drawn wide, so that attention matters and a wrong rotation cannot hide.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import gemma

VOCABULARY = 8192
MAX_MODEL_LEN = 2048
TOP = 1000
"""Tokens that a distribution of a real model is compared over."""
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_MODEL_LEN,
    "initializer_range": 0.2,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 512,
}


@dataclass(frozen=True)
class Tiny:
    """One model.

    Attributes:
        kind: name of its transformers configuration and model class, without the ending.
        config: its configuration.
        options: arguments of vLLM's `LLM` besides the common ones.
        items: tokens of each item; with the 20 tokens of the head they fill whole blocks.
        declined: a part of the sentence that says why it cannot be injected into, if so.
        has_native_hits: whether vLLM keeps a prefix cache for it on the CPU.
        adapter: serve with a LoRA adapter of this rank.
        is_real: trained weights (`gemma.py`), given lines of text in place of random tokens.
    """

    kind: str
    config: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    items: tuple[int, ...] = (18,) * 6
    declined: str | None = None
    has_native_hits: bool = True
    adapter: int = 0
    is_real: bool = False


def _small(**changes: Any) -> dict[str, Any]:
    return {**_SMALL, **changes}


def _without_groups(**changes: Any) -> dict[str, Any]:
    return {k: v for k, v in _small(**changes).items() if k != "num_key_value_heads"}


_GEMMA3 = _small(
    num_hidden_layers=4,
    head_dim=64,
    num_key_value_heads=1,
    sliding_window=96,
    layer_types=["sliding_attention"] * 3 + ["full_attention"],
    query_pre_attn_scalar=64,
    rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
    },
)
_DEEPSEEK = _small(
    num_hidden_layers=2,
    num_key_value_heads=4,
    first_k_dense_replace=2,
    kv_lora_rank=512,
    q_lora_rank=None,
    qk_nope_head_dim=32,
    qk_rope_head_dim=64,
    v_head_dim=32,
    n_routed_experts=4,
    moe_intermediate_size=64,
)
_NATIVE_ROPE = {"compilation_config": {"custom_ops": ["-rotary_embedding"]}}
_LONG = (17, 30, 45, 24, 60, 33, 21, 40, 18, 52, 24)  # with the head: 384, four windows of 96

MODELS: dict[str, Tiny] = {
    "llama": Tiny("Llama", _small(head_dim=32, rope_parameters=_LLAMA3)),
    "llama-yarn": Tiny("Llama", _small(head_dim=32, rope_parameters=_YARN)),
    "llama-compiled": Tiny("Llama", _small(head_dim=32), {"enforce_eager": False}),
    "llama-fp8-cache": Tiny("Llama", _small(head_dim=32), {"kv_cache_dtype": "fp8"}),
    "llama-fp16": Tiny("Llama", _small(head_dim=32), {"dtype": "float16"}),
    "llama-lora": Tiny("Llama", _small(head_dim=32), {"enable_lora": True}, adapter=8),
    "llama-tp2": Tiny("Llama", _small(head_dim=32), {"tensor_parallel_size": 2}),
    "mistral": Tiny("Mistral", _small(head_dim=32, sliding_window=None)),
    "mistral-window": Tiny("Mistral", _small(head_dim=32, sliding_window=96), items=_LONG),
    "qwen2": Tiny("Qwen2", _small(head_dim=32)),
    "qwen3": Tiny("Qwen3", _small(head_dim=32)),
    "gemma3": Tiny("Gemma3Text", _GEMMA3, items=_LONG),
    "gemma3-one-group": Tiny(
        "Gemma3Text", _GEMMA3, {"disable_hybrid_kv_cache_manager": True}, items=_LONG
    ),
    "gemma3-270m": Tiny("Gemma3Text", {}, {"max_logprobs": TOP}, is_real=True),
    "phi": Tiny("Phi", _small(num_key_value_heads=4, partial_rotary_factor=0.5)),
    "gpt-neox": Tiny("GPTNeoX", _without_groups(rotary_pct=0.25)),
    "gpt-j": Tiny(
        "GPTJ",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 128,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": MAX_MODEL_LEN,
            "rotary_dim": 16,
            "initializer_range": 0.2,
        },
    ),
    "smollm3": Tiny("SmolLM3", _small(head_dim=32, no_rope_layers=[1, 1, 0])),
    "exaone4": Tiny(
        "Exaone4",
        _small(
            head_dim=32,
            num_hidden_layers=4,
            sliding_window=96,
            sliding_window_pattern=4,
            layer_types=["sliding_attention"] * 3 + ["full_attention"],
        ),
        items=_LONG,
    ),
    # The rotary kernel of vLLM 0.32 for CPUs takes MLA's strided keys for dense ones.
    "deepseek": Tiny("DeepseekV2", _DEEPSEEK, _NATIVE_ROPE, has_native_hits=False),
    "deepseek-cpu-rope": Tiny("DeepseekV2", _DEEPSEEK, declined="differs from what the model"),
    "opt": Tiny(
        "OPT",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 128,
            "ffn_dim": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 128,
            "max_position_embeddings": MAX_MODEL_LEN,
            "init_std": 0.2,
        },
        declined="turns K with position",
    ),
}


def save(name: str, folder: Path) -> None:
    """Writes the model's folder: configuration and random bf16 weights."""
    import torch
    import transformers

    tiny = MODELS[name]
    if tiny.is_real:
        folder.symlink_to(gemma.prepare(), target_is_directory=True)
        return
    config_class: Callable[..., Any] = getattr(transformers, tiny.kind + "Config")
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = config_class(**tiny.config, tie_word_embeddings=False, **special)
    torch.manual_seed(7)
    kind = tiny.kind.removesuffix("Text")
    model = getattr(transformers, kind + "ForCausalLM")(config).to(torch.bfloat16)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)


def save_adapter(name: str, folder: Path) -> None:
    """Writes a random LoRA adapter of the model, in PEFT's format, without PEFT."""
    import json

    import torch
    from safetensors.torch import save_file

    tiny = MODELS[name]
    hidden, heads = tiny.config["hidden_size"], tiny.config["num_attention_heads"]
    size = heads * tiny.config["head_dim"]
    generator, tensors = torch.Generator().manual_seed(11), {}
    for layer in range(tiny.config["num_hidden_layers"]):
        base = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        a = torch.randn(tiny.adapter, hidden, generator=generator) * 0.3
        b = torch.randn(size, tiny.adapter, generator=generator) * 0.3
        tensors[f"{base}.lora_A.weight"] = a.to(torch.bfloat16)
        tensors[f"{base}.lora_B.weight"] = b.to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": tiny.adapter, "lora_alpha": tiny.adapter}
    config |= {"target_modules": ["q_proj"], "bias": "none", "base_model_name_or_path": name}
    (folder / "adapter_config.json").write_text(json.dumps(config))
