"""Mem0's config dict: what of it is ours, and a sentence for each part that is the sidecar's.

Invariant: a part that asks for something is either taken or refused, all refusals in one message.
"""

from collections.abc import Mapping
from typing import Any

from inferscale.compat._refuse import DialectError

_SETTINGS = ("base_url", "api_key", "timeout_s", "max_retries")
_SIDECAR = {
    "vector_store": "the sidecar keeps the memories (its setting store.url)",
    "history_db_path": "the sidecar keeps the history (its setting store.url)",
    "embedder": "the sidecar embeds (its settings embed.*)",
    "llm": "the sidecar's own engine is the LLM",
    "graph_store": "there is no graph",
    "reranker": "the sidecar reranks (its setting rerank.model)",
    "custom_instructions": "extraction is set up on the sidecar",
    "custom_fact_extraction_prompt": "extraction is set up on the sidecar",
    "custom_update_memory_prompt": "extraction is set up on the sidecar",
}
_VERSIONS = (None, "v1.1")


def read_config(config: Any) -> dict[str, Any]:
    """Settings of the client from Mem0's config: a dict, or an object of Mem0's `MemoryConfig`.

    Ours is the part `{"inferscale": {"base_url": …, "api_key": …, "timeout_s": …}}`.

    Raises:
        DialectError: parts that only the sidecar could honour, or that nobody knows.
    """
    given = _as_dict(config)
    ours = _as_dict(given.pop("inferscale", None))
    problems = [f"inferscale.{name} is not a setting" for name in ours if name not in _SETTINGS]
    for name, value in given.items():
        if name == "version":
            if value not in _VERSIONS:
                problems.append(f"version={value!r}: results have the format of v1.1")
        elif name not in _SIDECAR:
            problems.append(f"{name} is not a part of Mem0's config")
        elif value:
            problems.append(f"{name}: {_SIDECAR[name]}")
    if problems:
        raise DialectError(
            f"the config cannot be honoured: {'; '.join(problems)}.",
            remedy="Take these parts out, and set up the sidecar instead (docs/from-mem0.md).",
        )
    return ours


def _as_dict(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    if hasattr(config, "model_dump"):
        # Defaults that nobody wrote ask for nothing.
        return dict(config.model_dump(exclude_unset=True))
    raise DialectError(f"the config is a {type(config).__name__}; pass a dict.")
