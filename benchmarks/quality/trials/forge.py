"""Makes new items of items in the engine's bank: means over several builds, scaled keys.

Owns arithmetic on stored KV, for trials. Works on the bank's file beside the running engine.
Invariant: K of all items of a mean is turned to one position before it is added up.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import Bank, ItemHeader, checksum, open_bank

LIMIT_BYTES = 8 * 2**30


class Forge:
    """An open bank of the demo model, or another with one RoPE base.

    Args:
        folder: the engine's `bank_dir`.
        shape: `[L, 2, H, D]` of a token.
        theta: the model's RoPE base.
    """

    def __init__(
        self,
        folder: Path,
        shape: tuple[int, int, int, int] = (30, 2, 3, 64),
        theta: float = 1e5,
    ) -> None:
        (path,) = folder.glob("*/rank0")
        self._bank: Bank = open_bank(path, limit_bytes=LIMIT_BYTES)
        self._shape = shape
        size = shape[-1]
        frequencies = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
        self._rope = RopeTable.uniform(frequencies, shape[0])

    def mean(self, sources: Sequence[str], key: str) -> None:
        """Stores the mean of several builds of one fact under `key`."""
        headers = self._headers(sources)
        position = headers[0].position
        total = torch.zeros(headers[0].num_tokens, *self._shape)
        for source, header in zip(sources, headers, strict=True):
            total += self._read(source, header, position - header.position)
        self._put(key, headers[0], total / len(sources))

    def scaled(self, source: str, key: str, *, k: float = 1.0, v: float = 1.0) -> None:
        """Stores a copy with K and V multiplied."""
        (header,) = self._headers([source])
        kv = self._read(source, header, 0)
        kv[:, :, 0] *= k
        kv[:, :, 1] *= v
        self._put(key, header, kv)

    def _headers(self, keys: Sequence[str]) -> list[ItemHeader]:
        found = self._bank.headers(keys)
        missing = [key for key, header in zip(keys, found, strict=True) if header is None]
        if missing:
            raise KeyError(f"the bank has no items {missing}")
        return [header for header in found if header is not None]

    def _read(self, key: str, header: ItemHeader, shift: int) -> torch.Tensor:
        """KV fp32 [T, L, 2, H, D], K turned by so many positions."""
        with self._bank.reading() as reader:
            raw = bytearray(reader.kv(key) or b"")
        kv = torch.frombuffer(raw, dtype=torch.bfloat16).view(header.num_tokens, *self._shape)
        turned = rotate(kv.float(), torch.tensor([[0, header.num_tokens, shift, 0]]), self._rope)
        # [L, T, H, D] each
        return torch.stack((turned.k, turned.v), dim=2).transpose(0, 1).contiguous()

    def _put(self, key: str, like: ItemHeader, kv: torch.Tensor) -> None:
        raw = kv.to(torch.bfloat16).contiguous().view(torch.uint8).numpy().reshape(-1).data
        header = replace(like, checksum=checksum(raw), size_bytes=len(raw), written_ns=0)
        self._bank.put({key: (header, raw)})
