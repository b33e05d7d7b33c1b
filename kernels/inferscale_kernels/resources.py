"""What the Triton kernels compile to, for GPUs that need not be present.

Owns: the models and targets compiled for, and reading registers, spills and vector widths off
the result. Does not own: the kernels.
Invariant: the committed `resources.json` is what `python -m inferscale_kernels.resources` prints.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from inferscale_kernels.ops.extract.triton import extract_constants, extract_kernel
from inferscale_kernels.ops.inject.triton import inject_kernel, kernel_constants
from inferscale_kernels.ops.inject.triton_codes import codec_constants, inject_codes_kernel
from inferscale_kernels.ops.quantize.reference import ItemCodec
from inferscale_kernels.rope import RopeTable

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""GPUs by the name of their architecture."""

TABLE = files("inferscale_kernels").joinpath("resources.json")
"""The committed table."""


@dataclass(frozen=True)
class Case:
    """One kernel for one model."""

    op: Literal["inject", "extract"]
    model: str
    layers: int
    heads: int
    head_dim: int
    rotary_dim: int
    is_neox: bool = True
    has_values: bool = True
    is_fp8: bool = False
    codec: Literal["", "int8", "k8v4"] = ""

    def rope(self) -> RopeTable:
        """Rotary geometry; the values of the frequencies do not matter here."""
        offset = 0 if self.has_values else self.head_dim - self.rotary_dim
        freq = torch.ones(self.rotary_dim // 2)
        return RopeTable.uniform(freq, self.layers, is_neox=self.is_neox, offset=offset)


CASES = (
    Case("inject", "smollm2-135m", 30, 3, 64, 64),
    Case("inject", "llama-3.1-8b", 32, 8, 128, 128),
    Case("inject", "llama-3.1-8b", 32, 8, 128, 128, is_fp8=True),
    Case("inject", "llama-3.1-8b", 32, 8, 128, 128, codec="int8"),
    Case("inject", "llama-3.1-8b", 32, 8, 128, 128, codec="k8v4"),
    Case("inject", "gptj-6b", 28, 16, 256, 64, is_neox=False),
    Case("inject", "phi-2", 32, 32, 80, 32),
    Case("inject", "gemma-3-270m", 18, 1, 256, 256),
    Case("inject", "deepseek-v2-lite", 27, 1, 576, 64, is_neox=False, has_values=False),
    Case("extract", "smollm2-135m", 30, 3, 64, 64),
    Case("extract", "llama-3.1-8b", 32, 8, 128, 128),
    Case("extract", "llama-3.1-8b", 32, 8, 128, 128, is_fp8=True),
    Case("extract", "deepseek-v2-lite", 27, 1, 576, 64, is_neox=False, has_values=False),
)


@dataclass(frozen=True)
class Resources:
    """What one case needs on one target.

    `loads` and `stores` count a thread's accesses to global memory by their width in bytes.
    """

    op: str
    model: str
    cache: str
    items: str
    target: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    loads: dict[str, int]
    stores: dict[str, int]


def measure(case: Case, target: str) -> Resources:
    """Compile a case for a target and read what it needs.

    Raises:
        subprocess.CalledProcessError: the assembler refused the kernel; its output says why.
    """
    kernel, types, constants = _signature(case)
    signature = types | dict.fromkeys(constants, "constexpr")
    aligned = [i for i, name in enumerate(types) if types[name].startswith("*")]
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    compiled = triton.compile(
        ASTSource(kernel, signature, constants, attributes),
        target=TARGETS[target],
        options={"num_warps": 4, "enable_fp_fusion": False},
    )
    read = _read_ptx if target.startswith("sm_") else _read_amdgcn
    registers, spills, loads, stores = read(compiled.asm)
    return Resources(
        *(case.op, case.model, "fp8" if case.is_fp8 else "bf16", case.codec or "bf16", target),
        *(registers, spills, int(compiled.metadata.shared), loads, stores),
    )


def _signature(case: Case) -> tuple[Any, dict[str, str], dict[str, Any]]:
    """Kernel, argument types and constants of a case, as its launcher would give them."""
    geometry = (case.layers, case.heads, case.head_dim, case.has_values)
    align = {"ALIGN": 16 if case.is_fp8 else 8}
    cache = {"slots": "*i64", "layers": "*i64", "scales": "*fp32"}
    if case.op == "extract":
        types = {"items": "*bf16", **cache, "num_slots": "i32"}
        return extract_kernel, types, extract_constants(*geometry, case.is_fp8) | align
    constants = kernel_constants(*geometry, case.rope(), case.is_fp8) | align
    plan = {"tiles": "*i64", "turns": "*fp32", **cache, "rope_rows": "*i64", "num_slots": "i32"}
    if not case.codec:
        return inject_kernel, {"items": "*bf16", **plan}, constants
    codec = ItemCodec(torch.ones(geometry[:3]), case.codec, case.has_values)
    constants |= codec_constants(codec, torch.bfloat16)
    return inject_codes_kernel, {"codes": "*i8", "k_static": "*fp32", **plan}, constants


_Reading = tuple[int, int, dict[str, int], dict[str, int]]


def _read_ptx(assembly: dict[str, Any]) -> _Reading:
    """Registers, spilled bytes, loads and stores, by the assembler that Triton itself uses."""
    ptx = assembly["ptx"]
    name = re.findall(r"^\.target (\w+)", ptx, re.MULTILINE)[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        assembler = get_ptxas(int(re.sub(r"\D", "", name))).path
        command = [assembler, "-v", "--fmad=false", f"--gpu-name={name}", str(source)]
        command += ["-o", str(Path(folder) / "kernel.cubin")]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.findall(r"Used (\d+) registers", log)[0]
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", log)
    widths = [
        Counter(
            int(count or 1) * int(bits) // 8
            for count, bits in re.findall(rf"{access}\.global\S*?(?:\.v(\d))?\.b(\d+)", ptx)
        )
        for access in ("ld", "st")
    ]
    return int(registers), sum(map(int, spills)), _by_width(widths[0]), _by_width(widths[1])


_AMD_WIDTHS = {"byte": 1, "ubyte": 1, "short": 2, "ushort": 2, "dword": 4}


def _read_amdgcn(assembly: dict[str, Any]) -> _Reading:
    """The same, from the metadata that LLVM writes into its assembly."""
    text = assembly["amdgcn"]
    registers = re.findall(r"\.vgpr_count:\s+(\d+)", text)[0]
    spills = re.findall(r"\.[sv]gpr_spill_count:\s+(\d+)", text)
    widths = [
        Counter(
            _AMD_WIDTHS[unit] * int(count or 1)
            for unit, count in re.findall(
                rf"(?:global|buffer|flat)_{access}_(ubyte|byte|ushort|short|dword)(?:x(\d))?", text
            )
        )
        for access in ("load", "store")
    ]
    return int(registers), 4 * sum(map(int, spills)), _by_width(widths[0]), _by_width(widths[1])


def _by_width(widths: Counter[int]) -> dict[str, int]:
    return {str(width): widths[width] for width in sorted(widths, reverse=True)}


def table(targets: Sequence[str]) -> list[dict[str, Any]]:
    """All cases on the given targets."""
    return [asdict(measure(case, target)) for case in CASES for target in targets]


def main() -> None:
    """Print the table as JSON, one row per line."""
    parser = argparse.ArgumentParser(description="Print what the kernels compile to, as JSON.")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    rows = table(parser.parse_args().target or list(TARGETS))
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    head = f'{{\n  "triton": "{triton.__version__}",\n  "rows": [\n    '
    sys.stdout.write(f"{head}{lines}\n  ]\n}}\n")


if __name__ == "__main__":
    main()
