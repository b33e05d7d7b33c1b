"""Says what cannot be injected on this engine, before anything is tried.

Owns the list of model and engine features that the connector declines, each with a sentence for the
user. Everything here looks at configuration; what needs the loaded model is in `selftest.py`.
"""

from typing import Any

from inferscale_vllm import compat


def unsupported(vllm_config: Any, kv_cache_config: Any) -> str | None:
    """Why this engine cannot inject, as a sentence, or None if it can."""
    parallel = vllm_config.parallel_config
    checks = (
        (compat.unsupported_version(), None),
        (parallel.pipeline_parallel_size > 1, "pipeline parallelism is not supported yet"),
        (
            getattr(parallel, "decode_context_parallel_size", 1) > 1,
            "decode context parallelism shards tokens over ranks",
        ),
        (vllm_config.speculative_config, "draft layers would need injected KV as well"),
    )
    for found, sentence in checks:
        if found:
            return sentence or str(found)
    return _unsupported_cache(kv_cache_config)


def _unsupported_cache(kv_cache_config: Any) -> str | None:
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec, SlidingWindowSpec

    if not kv_cache_config.kv_cache_groups:
        return "the model has no KV cache"
    for group in kv_cache_config.kv_cache_groups:
        spec = group.kv_cache_spec
        if type(spec) not in (FullAttentionSpec, SlidingWindowSpec, MLAAttentionSpec):
            return f"layers with {type(spec).__name__} are not supported ({group.layer_names[0]})"
    return None


def forced_off(request: Any) -> str | None:
    """The reason for which vLLM, or we, would never inject into this request; None if we may."""
    if request.pooling_params is not None or request.skip_reading_prefix_cache:
        return "prompt_logprobs"
    if request.prompt_token_ids is None or request.prompt_embeds is not None:
        return "prompt_embeds"
    checks = (
        (request.has_encoder_inputs, "multimodal"),
        (request.resumable, "resumable"),
    )
    return next((reason for found, reason in checks if found), None)
