"""Names the namespace of a bank: everything that the bytes of an item depend on besides its tokens
and its LoRA adapter, which it names as well.

Owns the fingerprint and nothing else. Invariant: every process of one engine (API server,
scheduler, workers) computes the same value, and two engines whose KV differs never do. It is
computed from the configuration and the weight files' identity, never from mutable state.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from inferscale_vllm.bank.items import NO_ADAPTER

FORMAT = 1
"""Version of the item format and of the rotation. Part of the namespace: a new one rebuilds, never
misreads."""
_EDGE_BYTES = 65_536
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


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


def adapter_of(lora_request: Any) -> bytes:
    """The bank's name of a request's LoRA adapter, 7 bytes: its name and files. Zeros for none."""
    if lora_request is None:
        return NO_ADAPTER
    folder = Path(lora_request.lora_path)
    stamps = tuple(_stamp(folder / name) for name in _ADAPTER_FILES)
    return _adapter_tag(lora_request.lora_name, folder, stamps)


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


@lru_cache(maxsize=256)
def _adapter_tag(name: str, folder: Path, _stamps: tuple[int, ...]) -> bytes:
    files = [_file_identity(folder / file) for file in _ADAPTER_FILES]
    known = [identity for identity in files if identity[1] is not None]
    text = json.dumps([name, known or str(folder)])
    return hashlib.sha256(text.encode()).digest()[: len(NO_ADAPTER)]


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
