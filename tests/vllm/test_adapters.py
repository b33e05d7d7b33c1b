"""KV belongs to the LoRA adapter that computed it, and serves no other."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from inferscale_vllm.bank.items import NO_ADAPTER, ItemHeader
from inferscale_vllm.fingerprint import adapter_of
from inferscale_vllm.plan import prefix_key


def adapter(folder: Path, weights: bytes = b"weights", name: str = "tuned") -> SimpleNamespace:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return SimpleNamespace(lora_name=name, lora_path=str(folder))


def test_an_adapter_is_known_by_name_and_weights(tmp_path: Path) -> None:
    first = adapter_of(adapter(tmp_path / "a"))
    assert adapter_of(None) == NO_ADAPTER
    assert len(first) == len(NO_ADAPTER) and first != NO_ADAPTER
    assert adapter_of(adapter(tmp_path / "b")) == first, "the same weights elsewhere"
    assert adapter_of(adapter(tmp_path / "a", name="other")) != first


def test_new_weights_at_the_same_place_are_another_adapter(tmp_path: Path) -> None:
    before = adapter_of(adapter(tmp_path / "a"))
    changed = adapter(tmp_path / "a", b"WEIGHTS")
    os.utime(tmp_path / "a" / "adapter_model.safetensors", ns=(1, 1))
    assert adapter_of(changed) != before


def test_an_adapter_that_is_no_folder_is_known_by_its_name() -> None:
    first, second = (
        SimpleNamespace(lora_name="tuned", lora_path=path) for path in ("hub/one", "hub/two")
    )
    assert adapter_of(first) == adapter_of(first) != adapter_of(second)


def test_the_record_of_an_item_names_it() -> None:
    header = ItemHeader(2, 5, 8, 1, np.asarray([3, 4], np.int32), adapter=b"adapter")
    found = ItemHeader.unpack(header.packed())
    assert found is not None and found.adapter == b"adapter"


def test_prefixes_of_adapters_are_apart() -> None:
    ids = np.arange(4, dtype=np.int32)
    keys = {prefix_key("t", ids, 0, tag) for tag in (NO_ADAPTER, b"adapter", b"another")}
    assert len(keys) == 3
    assert prefix_key("t", ids, 0) in keys
