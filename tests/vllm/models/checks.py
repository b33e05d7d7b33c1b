"""What is measured on each tiny model: the promises of injection, whatever the architecture."""

import random
import time
from itertools import chain
from typing import Any

import numpy as np
import torch

from inferscale_vllm.bank import Bank

from . import texts
from .offline import HEAD, Offline, build, inject
from .zoo import VOCABULARY

TAIL = 9
WRITTEN_S = 20.0


def check(engine: Offline) -> dict[str, Any]:
    """Build, inject where built, inject elsewhere, and ask without injection again."""
    head, items, tail, *tails = texts.of_model(engine) if engine.tiny.is_real else _random(engine)
    keys = [f"{i + 1:064x}" for i in range(len(items))]
    prompt = head + list(chain(*items)) + tail
    order = list(range(len(items)))[::-1]
    moved = head + list(chain(*(items[i] for i in order))) + tail
    lora = engine.adapter
    engine.complete(prompt, build(keys, items, "build"), salt="build", adapter=lora)
    seen: dict[str, Any] = {"span": len(prompt) - len(tail), "items": len(items)}
    seen["stored"] = len(_stored(engine, keys))
    cold, _ = engine.complete(prompt, adapter=lora)
    native, seen["native_tokens"] = engine.complete(prompt, adapter=lora)
    exact, _ = engine.complete(prompt, inject(keys, "exact"), salt="other", adapter=lora)
    seen["exact"] = engine.report("exact")
    seen["exact_equals_native"] = exact == native
    seen["exact_from_cold"] = _distance(exact, cold)
    seen["native_from_cold"] = _distance(native, cold)
    seen |= _check_moved(engine, moved, order, keys, items)
    if tails:
        seen["kl"] = texts.divergences(engine, head, items, keys, tails)
    return seen


def _random(engine: Offline) -> tuple[list[int], list[list[int]], list[int]]:
    """Head, items and tail of tokens that mean nothing."""
    rng = random.Random(5)
    items = [[rng.randrange(10, VOCABULARY) for _ in range(n)] for n in engine.tiny.items]
    head, tail = ([rng.randrange(10, VOCABULARY) for _ in range(n)] for n in (HEAD, TAIL))
    return head, items, tail


def _check_moved(
    engine: Offline, moved: list[int], order: list[int], keys: list[str], items: list[list[int]]
) -> dict[str, Any]:
    lora = engine.adapter
    before, _ = engine.complete(moved, salt="before", adapter=lora)
    wanted = [keys[i] for i in order]
    answer, _ = engine.complete(moved, inject(wanted, "moved"), tokens=48, adapter=lora)
    seen: dict[str, Any] = {
        "moved": engine.report("moved"),
        "moved_from_text": _distance(answer, before),
    }
    after, _ = engine.complete(moved, adapter=lora)
    seen["exact_after_injected"] = after == before
    natives = [f"{i + 101:064x}" for i in range(len(items))]
    engine.complete(
        moved, build(natives, [items[i] for i in order], "natives"), salt="natives", adapter=lora
    )
    built = _stored(engine, wanted)
    native = _stored(engine, natives)
    if len(built) == len(native) == len(items) and engine.worker:
        sizes = [len(item) for item in items]
        seen["first_layer_error"] = _first_layer_error(engine, built, native, order, sizes)
    return seen


def _distance(left: Any, right: Any) -> float:
    """Largest difference of the first token's logprobs over the tokens that both name."""
    a, b = left[1][0], right[1][0]
    return max((abs(a[t] - b[t]) for t in a.keys() & b.keys()), default=float("inf"))


def _stored(engine: Offline, keys: list[str]) -> list[bytes]:
    """KV bytes of the items that are in the bank; they are written by a thread of its own."""
    paths = sorted((engine.folder / "bank").glob("*/rank0"))
    if not paths:
        return []
    from inferscale_vllm.bank import open_bank

    bank: Bank = open_bank(paths[0], limit_bytes=2**30)
    deadline = time.monotonic() + WRITTEN_S
    while not all(bank.headers(keys)) and time.monotonic() < deadline:
        time.sleep(0.05)
    with bank.reading() as reader:
        return [bytes(kv) for kv in map(reader.kv, keys) if kv is not None]


def _first_layer_error(
    engine: Offline, built: list[bytes], native: list[bytes], order: list[int], sizes: list[int]
) -> float:
    """How far the first layer's K, moved, is from what a prefill computes there, of its size.

    K of the first layer depends on token and position only.
    """
    from inferscale_kernels.ops.inject import rotate
    from inferscale_kernels.rope import RopeTable

    worker = engine.worker
    rope, shape = worker._rope, worker._layers.token_shape
    single = RopeTable(rope.inv_freq, rope.rows[:1], rope.is_neox, rope.offset)
    starts = np.cumsum([HEAD, *sizes])
    at, worst = HEAD, 0.0
    for mine, theirs, index in zip(built, native, order, strict=True):
        left, right = (_first_layer(kv, shape, worker._dtype) for kv in (mine, theirs))
        segment = torch.tensor([[0, len(left), at - int(starts[index]), 0]])
        got = rotate(left, segment, single).k[0].float()
        wanted = right[:, 0].reshape(len(right), -1)[:, : got[0].numel()].view_as(got).float()
        worst = max(worst, ((got - wanted).abs().max() / wanted.abs().max()).item())
        at += len(left)
    return worst


def _first_layer(kv: bytes, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An item's first layer as a staging buffer: [T, 1, 2, H, D], of MLA [T, 1, 1, C]."""
    values = torch.from_numpy(np.frombuffer(kv, np.int16).copy()).view(dtype).view(-1, *shape)
    first = values[:, :1] if shape[1] == 2 else values[:, :1, :, 0]
    return first.contiguous()
