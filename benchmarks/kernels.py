"""How close the data path of injection is to a plain copy of the same bytes.

Rows: `op`, `device`, `model`, `tokens`, `bytes` (read + written, what the op cannot avoid), `ms`,
`copy_ms` (a copy that moves as many bytes, measured beside it), and `achieved` = copy_ms / ms.
Without a GPU the CPU path is measured: the rotation, without the engine's own writer.

The op is checked against its reference before it is timed: no figure is printed on a wrong result.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops import inject as inject_op
from inferscale_kernels.ops.extract import reference as extract_reference
from inferscale_kernels.ops.inject import reference
from inferscale_kernels.ops.quantize import ItemCodec, calibrate
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import segment_table

ITEM_TOKENS = 20


class Model(NamedTuple):
    """KV shape of a model."""

    name: str
    layers: int
    heads: int
    head_dim: int
    base: float

    def rope(self) -> RopeTable:
        exponent = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        return RopeTable.uniform(1.0 / self.base**exponent, self.layers)


SMOLLM2 = Model("SmolLM2-135M", 30, 3, 64, 1e5)
LLAMA = Model("Llama-3.1-8B", 32, 8, 128, 5e5)


class Measured(NamedTuple):
    """One op, as a call to time and a copy to time beside it."""

    op: str
    moved_bytes: int
    call: Callable[[], object]
    copy: Callable[[], object]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the kernels against a plain copy.")
    parser.add_argument("--json", action="store_true", help="print one JSON object, last line")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    repeats = 9 if options.quick else 41
    rows = list(_rows(repeats))
    if not options.json:
        _print_table(rows)
        return
    result = {
        "name": "kernels",
        "command": "python -m benchmarks.kernels " + " ".join(sys.argv[1:]),
        "machine": _machine(options.threads),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "rows": rows,
    }
    print(json.dumps(result))


def _rows(repeats: int) -> Iterator[dict[str, Any]]:
    on_gpu = torch.cuda.is_available()
    cases = [(SMOLLM2, 1000), (SMOLLM2, 4000)] + ([(LLAMA, 4000), (LLAMA, 16000)] * on_gpu)
    for model, tokens in cases:
        for measured in _on_gpu(model, tokens) if on_gpu else _on_cpu(model, tokens):
            ms, copy_ms = _interleaved(measured, repeats, on_gpu)
            yield {
                "op": measured.op,
                "device": "cuda" if on_gpu else "cpu",
                "model": model.name,
                "tokens": tokens,
                "bytes": measured.moved_bytes,
                "ms": round(ms, 4),
                "copy_ms": round(copy_ms, 4),
                "achieved": round(copy_ms / ms, 3),
            }


def _staged(model: Model, tokens: int) -> tuple[Tensor, Tensor]:
    """Random items of 20 tokens, and a table that moves each by another distance."""
    generator = torch.Generator().manual_seed(tokens)
    shape = (tokens, model.layers, 2, model.heads, model.head_dim)
    items = torch.randn(shape, generator=generator).to(torch.bfloat16)
    starts = range(0, tokens, ITEM_TOKENS)
    return items, segment_table([(i, ITEM_TOKENS, 3 * i - tokens, i) for i in starts])


def _on_cpu(model: Model, tokens: int) -> Iterator[Measured]:
    items, moved = _staged(model, tokens)
    rope, out, truth = model.rope(), *(inject_op.empty_kv(items, tokens) for _ in range(2))
    target = torch.empty_like(items)
    unmoved = moved.clone()
    unmoved[:, 2] = 0
    in_place = moved.clone()
    in_place[:, 0] = 0
    blob = memoryview(items.view(torch.uint8).numpy().tobytes())
    size = len(blob) // len(moved)
    pieces = [blob[i * size : (i + 1) * size] for i in range(len(moved))]
    calls: dict[str, Callable[[], object]] = {
        "rotate": lambda: inject_op.rotate_into(items, moved, rope, out),
        "rotate, in place of gather": lambda: inject_op.rotate_items_into(
            pieces, in_place, rope, out
        ),
        "rotate, reference": lambda: reference.rotate_into(items, moved, rope, out),
        "rotate, nothing moved": lambda: inject_op.rotate_into(items, unmoved, rope, out),
    }
    reference.rotate_into(items, moved, rope, truth)
    for op, call in calls.items():
        call()
        if op != "rotate, nothing moved" and not torch.equal(out.k, truth.k):
            raise SystemExit(f"{op} differs from its reference: not timed")
        yield Measured(op, 2 * items.nbytes, call, lambda: target.copy_(items))


def _on_gpu(model: Model, tokens: int) -> Iterator[Measured]:
    from inferscale_kernels.ops.extract import triton as extract_triton
    from inferscale_kernels.ops.inject import triton as inject_triton
    from inferscale_kernels.ops.inject.triton_codes import inject_codes

    host, moved = _staged(model, tokens)
    items, rope = host.cuda(), model.rope()
    got, want = (_caches(model, tokens) for _ in range(2))
    slots = torch.randperm(tokens + 64, generator=torch.Generator().manual_seed(1))[:tokens].cuda()
    reference.inject(items, moved, slots, rope, want)
    out, source = torch.empty_like(items), torch.empty_like(items)

    def plain() -> None:
        inject_triton.inject(items, moved, slots, rope, got)

    def back() -> None:
        extract_triton.extract(want, slots, out)

    plain()
    back()
    if not all(torch.equal(a, b) for a, b in zip(got.views, want.views, strict=True)):
        raise SystemExit("inject differs from its reference: not timed")
    if not torch.equal(out, extract_reference.extract(want, slots, source)):
        raise SystemExit("extract differs from its reference: not timed")
    yield Measured("inject", 2 * items.nbytes, plain, lambda: source.copy_(items))
    yield Measured("extract", 2 * items.nbytes, back, lambda: source.copy_(items))
    for name in ("int8", "k8v4"):
        codec = ItemCodec(calibrate(host[:500], rope).cuda(), name)  # type: ignore[arg-type]
        codes = codec.encode(items)
        moved_bytes = codes.nbytes + items.nbytes
        from_, to = torch.empty(2, moved_bytes // 2, dtype=torch.uint8, device="cuda")

        def compressed(codec: ItemCodec = codec, codes: Tensor = codes) -> None:
            inject_codes(codes, moved, slots, rope, got, codec)

        def copied(to: Tensor = to, from_: Tensor = from_) -> None:
            to.copy_(from_)

        yield Measured(f"inject, {name}", moved_bytes, compressed, copied)


def _caches(model: Model, tokens: int) -> CacheTable:
    shape = (model.layers, -(-(tokens + 64) // 16), 16, model.heads, 2 * model.head_dim)
    pages = torch.zeros(shape, dtype=torch.bfloat16, device="cuda").permute(0, 1, 3, 2, 4)
    return CacheTable.of(list(pages))


def _interleaved(measured: Measured, repeats: int, on_gpu: bool) -> tuple[float, float]:
    """Median milliseconds of the op and of the copy, taken in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for kept, call in zip(times, (measured.call, measured.copy), strict=True):
            kept.append(_gpu_ms(call) if on_gpu else _cpu_ms(call))
    return statistics.median(times[0]), statistics.median(times[1])


def _cpu_ms(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def _gpu_ms(call: Callable[[], object]) -> float:
    """Device time of one call, host preparation left out as the engine overlaps it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(10_000_000)  # the launches queue up behind this
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def _machine(threads: int) -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.processor() or platform.machine()}, {threads} threads"


def _print_table(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'op':28} {'model':14} {'tokens':>6} {'MB':>7} {'ms':>8} {'copy ms':>8} {'achieved':>9}"
    )
    for row in rows:
        print(
            f"{row['op']:28} {row['model']:14} {row['tokens']:6} {row['bytes'] / 1e6:7.1f} "
            f"{row['ms']:8.3f} {row['copy_ms']:8.3f} {row['achieved']:9.2f}"
        )


if __name__ == "__main__":
    main()
