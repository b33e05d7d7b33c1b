"""Compressed items: calibrated once per bank, as small as promised, read as the kernels say."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from inferscale_kernels.ops.inject import RotatedKV, rotate_items_into
from inferscale_kernels.ops.inject import reference as inject_reference
from inferscale_kernels.rope import RopeTable
from inferscale_vllm import settings as settings_module
from inferscale_vllm.bank import Bank
from inferscale_vllm.capture import Captured
from inferscale_vllm.settings import Settings
from inferscale_vllm.storage import CALIBRATION_TOKENS, Storage

from .bank_items import TENANTS, key

SHAPE = (4, 2, 3, 64)
ROPE = RopeTable.uniform(1e4 ** (-torch.arange(0, 64, 2, dtype=torch.float32) / 64), SHAPE[0])


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "rank0", limit_bytes=2**26)


def captured(
    number: int, *, tokens: int = 33, position: int = 40, outlier: float = 1.0
) -> Captured:
    generator = torch.Generator().manual_seed(number)
    kv = torch.randn(tokens, *SHAPE, generator=generator)
    kv[:, :, 0, :, 5] += 30  # a channel of K that is far off for all tokens, as a bias makes it
    kv[::7, :, 1, :, 9] *= outlier
    ids = np.arange(tokens, dtype=np.int32)
    return Captured(key(number), position, ids, kv.to(torch.bfloat16), TENANTS[0])


def calibrated(bank: Bank, wanted: str, **options: Any) -> Storage:
    storage = Storage(bank, ROPE, SHAPE, wanted=wanted)
    for number in range(-(-CALIBRATION_TOKENS // 33)):
        header, _ = storage.pack(captured(number, **options))
        assert header.codec == "plain"
    return storage


@pytest.mark.parametrize(("wanted", "share"), [("int8", 0.53), ("k8v4", 0.43)])
def test_an_item_takes_its_share_and_comes_back(bank: Bank, wanted: str, share: float) -> None:
    storage = calibrated(bank, wanted)
    item = captured(100)
    header, kv = storage.pack(item)
    bank.put({item.key: (header, kv)})
    assert header.codec == wanted and header.size_bytes <= share * item.kv.nbytes
    outs = []
    with bank.reading() as reader:
        assert reader.codec(item.key) == wanted
        stored = reader.kv(item.key)
        assert stored is not None
        for into in (rotate_items_into, inject_reference.rotate_items_into):
            shape = (SHAPE[0], 33, SHAPE[2], SHAPE[3])
            out = RotatedKV(*(torch.zeros(shape, dtype=torch.bfloat16) for _ in range(2)))
            into([stored], torch.tensor([[0, 33, 0, 0]]), ROPE, out, storage.codec(wanted))
            outs.append(out)
    assert all(torch.equal(a, b) for a, b in zip(*outs, strict=True)), "kernel = reference"
    wanted_k, wanted_v = item.kv[:, :, 0].transpose(0, 1), item.kv[:, :, 1].transpose(0, 1)
    assert (outs[0].k - wanted_k).abs().float().mean() < 0.03
    assert (outs[0].v - wanted_v).abs().float().mean() < {"int8": 0.02, "k8v4": 0.15}[wanted]


def test_scales_stay_with_the_bank(bank: Bank) -> None:
    first = calibrated(bank, "int8")
    item = captured(100)
    packed = bytes(first.pack(item)[1])
    again = Storage(bank, ROPE, SHAPE, wanted="int8")
    assert again.format == "int8" and bytes(again.pack(item)[1]) == packed
    plain = Storage(bank, ROPE, SHAPE, wanted="bf16")
    assert plain.pack(item)[0].codec == "plain" and plain.may_compress
    assert torch.equal(plain.codec("int8").k_scale, first.codec("int8").k_scale)  # type: ignore[union-attr]


def test_another_engines_scales_are_found(bank: Bank) -> None:
    late = Storage(bank, ROPE, SHAPE, wanted="bf16")
    assert not late.may_compress
    with pytest.raises(KeyError):
        late.codec("int8")
    calibrated(bank, "int8")
    assert late.codec("int8") is not None


def test_auto_takes_the_smallest_that_is_good_enough(tmp_path: Path) -> None:
    for outlier, expected in ((1.0, "k8v4"), (20.0, "int8")):
        bank = Bank(tmp_path / f"{outlier}" / "rank0", limit_bytes=2**26)
        assert calibrated(bank, "auto", outlier=outlier).format == expected


def test_what_begins_at_the_sink_stays_exact(bank: Bank) -> None:
    storage = calibrated(bank, "k8v4")
    item = captured(100, position=0)
    header, kv = storage.pack(item)
    assert header.codec == "plain" and bytes(kv) == item.kv.view(torch.uint8).numpy().tobytes()


def test_bf16_is_the_bits_that_were_captured(bank: Bank) -> None:
    facts: list[Any] = []
    storage = Storage(bank, ROPE, SHAPE, tell=facts.append)
    item = captured(1)
    header, kv = storage.pack(item)
    assert header.codec == "plain" and bytes(kv) == item.kv.view(torch.uint8).numpy().tobytes()
    assert facts[-1]["format"] == "plain" and facts[-1]["bytes_per_token"] == 4 * 2 * 3 * 64 * 2


def test_what_is_told(bank: Bank) -> None:
    facts: list[Any] = []
    storage = Storage(bank, ROPE, SHAPE, wanted="int8", tell=facts.append)
    assert not facts[-1]["is_calibrated"]
    for number in range(-(-CALIBRATION_TOKENS // 33)):
        storage.pack(captured(number))
    assert facts[-1]["is_calibrated"] and facts[-1]["format"] == "int8"
    assert facts[-1]["bytes_per_token"] <= 0.53 * facts[-1]["bf16_bytes_per_token"]
    assert 0 < facts[-1]["errors"]["int8"][0] < 0.05 < facts[-1]["errors"]["k8v4"][1] < 0.15


def test_latent_kv_is_not_compressed(bank: Bank) -> None:
    storage = Storage(bank, ROPE, (4, 1, 1, 96), wanted="int8")
    assert not storage.may_compress and storage.format == "plain"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"kv_store_dtype": "fp8"}, "int8 takes the same space with a quarter of the error"),
        ({"kv_store_dtype": "int3"}, "choose one of auto, bf16, int8, k8v4"),
        ({"bank_tenant_share": 0}, "above 0 and at most 1"),
        ({"bank_size": 1}, "unknown entries"),
        ({"host_arena_bytes": -1}, "host_arena_bytes is -1, it must be a number of bytes, or 0"),
    ],
)
def test_settings_that_are_refused(extra: dict[str, Any], message: str) -> None:
    config = SimpleNamespace(
        kv_transfer_config=SimpleNamespace(kv_connector_extra_config=extra, engine_id="e")
    )
    with pytest.raises(ValueError, match=message):
        Settings.of(config)
    assert "auto" in settings_module.STORE_DTYPES
