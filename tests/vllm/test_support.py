"""Engines whose cache holds something else than KV per token are declined with a sentence."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm.v1 import kv_cache_interface as interface

from inferscale_vllm.support import unsupported


def engine(**parallel: Any) -> SimpleNamespace:
    sizes = {"pipeline_parallel_size": 1, "decode_context_parallel_size": 1, **parallel}
    return SimpleNamespace(parallel_config=SimpleNamespace(**sizes), speculative_config=None)


def cache(*kinds: str) -> SimpleNamespace:
    specs = [object.__new__(getattr(interface, kind)) for kind in kinds]
    groups = [
        SimpleNamespace(kv_cache_spec=spec, layer_names=[f"layers.{index}"])
        for index, spec in enumerate(specs)
    ]
    return SimpleNamespace(kv_cache_groups=groups)


@pytest.mark.parametrize(
    "kinds",
    [
        ("FullAttentionSpec",),
        ("FullAttentionSpec", "SlidingWindowSpec", "SlidingWindowSpec"),
        ("SlidingWindowSpec",),
        ("MLAAttentionSpec",),
    ],
)
def test_what_can_be_addressed_by_slot_is_taken(kinds: tuple[str, ...]) -> None:
    assert unsupported(engine(), cache(*kinds)) is None


@pytest.mark.parametrize("kind", ["MambaSpec", "ChunkedLocalAttentionSpec", "CrossAttentionSpec"])
def test_what_cannot_is_named_with_its_layer(kind: str) -> None:
    said = unsupported(engine(), cache("FullAttentionSpec", kind))
    assert said is not None and kind in said and "layers.1" in said


def test_pipelines_and_sharded_contexts_are_declined() -> None:
    plain = cache("FullAttentionSpec")
    assert "pipeline" in (unsupported(engine(pipeline_parallel_size=2), plain) or "")
    assert "context" in (unsupported(engine(decode_context_parallel_size=2), plain) or "")
    assert unsupported(engine(), cache()) == "the model has no KV cache"
