"""Means of stored KV: K of all builds is turned to one position before it is added up."""

from pathlib import Path

import numpy as np
import torch
from benchmarks.quality.trials.forge import LIMIT_BYTES, Forge

from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import ItemHeader, checksum, open_bank

SHAPE = (2, 2, 1, 8)
THETA = 1e4
ROPE = RopeTable.uniform(1.0 / THETA ** (torch.arange(0, 8, 2, dtype=torch.float32) / 8), SHAPE[0])


def at(kv: torch.Tensor, position: int) -> torch.Tensor:
    turned = rotate(kv.contiguous(), torch.tensor([[0, len(kv), position, 0]]), ROPE)
    return torch.stack((turned.k, turned.v), dim=2).transpose(0, 1)


def stored(bank, key: str, kv: torch.Tensor, position: int) -> None:
    raw = kv.to(torch.bfloat16).contiguous().view(torch.uint8).numpy().reshape(-1).data
    ids = np.arange(len(kv), dtype=np.int32)
    bank.put({key: (ItemHeader(len(kv), position, len(raw), checksum(raw), ids), raw)})


def read(bank, key: str) -> torch.Tensor:
    with bank.reading() as reader:
        raw = bytearray(reader.kv(key))
    return torch.frombuffer(raw, dtype=torch.bfloat16).view(-1, *SHAPE).float()


def test_the_mean_of_one_fact_built_at_two_positions_is_that_fact(tmp_path: Path):
    bank = open_bank(tmp_path / "fp" / "rank0", limit_bytes=LIMIT_BYTES)
    kv = torch.randn(3, *SHAPE, generator=torch.Generator().manual_seed(0))
    stored(bank, "a" * 64, at(kv, 10), 10)
    stored(bank, "b" * 64, at(kv, 200), 200)
    forge = Forge(tmp_path, SHAPE, THETA)
    forge.mean(["a" * 64, "b" * 64], "c" * 64)
    torch.testing.assert_close(read(bank, "c" * 64), at(kv, 10), atol=0.03, rtol=0.02)
    (header,) = bank.headers(["c" * 64])
    assert header is not None and header.position == 10
    forge.scaled("a" * 64, "d" * 64, k=0.5)
    halved, whole = read(bank, "d" * 64), read(bank, "a" * 64)
    torch.testing.assert_close(halved[:, :, 0], whole[:, :, 0] / 2)
    torch.testing.assert_close(halved[:, :, 1], whole[:, :, 1])
