"""Names the namespace of a bank: everything that the bytes of an item depend on besides its tokens.

Owns the fingerprint and nothing else. Invariant: every process of one engine (API server,
scheduler, workers) computes the same value, and two engines whose KV differs never do. It is
computed from the configuration and the weight files' identity, never from mutable state.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

FORMAT = 1
"""Version of the item format and of the rotation. Part of the namespace: a new one rebuilds, never
misreads."""
_EDGE_BYTES = 65_536


def fingerprint(vllm_config: Any) -> str:
    """64 hex digits naming model, weights, dtypes, RoPE, parallel layout and item format."""
    model = vllm_config.model_config
    parts = {
        "format": FORMAT,
        "model": _model_identity(model),
        "dtype": str(model.dtype),
        "cache_dtype": str(vllm_config.cache_config.cache_dtype),
        "quantization": str(model.quantization),
        "overrides": json.dumps(getattr(model, "hf_overrides", None), sort_keys=True, default=str),
        "tensor_parallel": vllm_config.parallel_config.tensor_parallel_size,
        "pipeline_parallel": vllm_config.parallel_config.pipeline_parallel_size,
    }
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _model_identity(model: Any) -> Any:
    """A local folder by its contents, a hub name by its revision."""
    folder = Path(model.model)
    if not folder.is_dir():
        return [str(model.model), str(model.revision)]
    files = sorted(p for p in folder.iterdir() if p.suffix in {".safetensors", ".bin", ".pt"})
    return [_file_identity(folder / "config.json"), *[_file_identity(p) for p in files]]


def _file_identity(path: Path) -> list[Any]:
    """Name, size, and a hash of both ends: reading all weights would take seconds at every
    start."""
    if not path.is_file():
        return [path.name, None, None]
    size = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_EDGE_BYTES))
        if size > _EDGE_BYTES:
            file.seek(max(_EDGE_BYTES, size - _EDGE_BYTES))
            digest.update(file.read(_EDGE_BYTES))
    return [path.name, size, digest.hexdigest()]
