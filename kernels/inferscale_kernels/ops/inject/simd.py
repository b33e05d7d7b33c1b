"""Vector steps for the compiled CPU loop, as LLVM code that numba places inline.

Owns: widening, turning and rounding a vector of pairs; copying bytes.
Does not own: loops and addresses (loop.py).
Invariant: bit-equal to torch: products are not fused with sums, and bf16 rounds to nearest even.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I16, _I32, _F32 = ir.IntType(16), ir.IntType(32), ir.FloatType()


def _pointer(builder: Any, address: Any, element: Any) -> Any:
    return builder.inttoptr(address, element.as_pointer())


def _load(builder: Any, address: Any, element: Any, lanes: int) -> Any:
    vector = ir.VectorType(element, lanes)
    return builder.load(_pointer(builder, address, vector), align=2)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, _pointer(builder, address, value.type), align=2)


def _const(value: int, lanes: int) -> Any:
    return ir.Constant(ir.VectorType(_I32, lanes), [value] * lanes)


def _widen(builder: Any, bits: Any, lanes: int, is_bf16: bool) -> Any:
    floats = ir.VectorType(_F32, lanes)
    if not is_bf16:
        return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), lanes)), floats)
    wide = builder.zext(bits, ir.VectorType(_I32, lanes))
    return builder.bitcast(builder.shl(wide, _const(16, lanes)), floats)


def _narrow(builder: Any, value: Any, lanes: int, is_bf16: bool) -> Any:
    halves = ir.VectorType(_I16, lanes)
    if not is_bf16:
        return builder.bitcast(builder.fptrunc(value, ir.VectorType(ir.HalfType(), lanes)), halves)
    # Round to nearest even. A NaN here was a bf16 NaN: its low bits are 0, so nothing carries.
    bits = builder.bitcast(value, ir.VectorType(_I32, lanes))
    odd = builder.and_(builder.lshr(bits, _const(16, lanes)), _const(1, lanes))
    rounded = builder.add(bits, builder.add(odd, _const(0x7FFF, lanes)))
    return builder.trunc(builder.lshr(rounded, _const(16, lanes)), halves)


def turn_pairs(lanes: int, is_bf16: bool, interleaved: bool) -> Any:
    """Make a compiled step: turn `lanes` pairs at `src` (partner `gap` bytes on) into `dst`."""

    def shuffled(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(order)), order))

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        dst, src, gap, cos_at, sin_at = args
        if interleaved:
            both = _load(builder, src, _I16, 2 * lanes)
            first = shuffled(builder, both, both, list(range(0, 2 * lanes, 2)))
            second = shuffled(builder, both, both, list(range(1, 2 * lanes, 2)))
        else:
            first = _load(builder, src, _I16, lanes)
            second = _load(builder, builder.add(src, gap), _I16, lanes)
        a = _widen(builder, first, lanes, is_bf16)
        b = _widen(builder, second, lanes, is_bf16)
        cos, sin = _load(builder, cos_at, _F32, lanes), _load(builder, sin_at, _F32, lanes)
        x = builder.fsub(builder.fmul(a, cos), builder.fmul(b, sin))
        y = builder.fadd(builder.fmul(b, cos), builder.fmul(a, sin))
        x, y = _narrow(builder, x, lanes, is_bf16), _narrow(builder, y, lanes, is_bf16)
        if interleaved:
            order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
            _store(builder, shuffled(builder, x, y, order), dst)
        else:
            _store(builder, x, dst)
            _store(builder, y, builder.add(dst, gap))
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def step(typing: Any, dst: Any, src: Any, gap: Any, cos: Any, sin: Any) -> Any:
        return types.void(*[types.int64] * 5), generate

    return step


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(typing: Any, dst: Any, src: Any, count: Any) -> Any:
    """Copy `count` bytes between buffers that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, at, size = args
        byte = ir.IntType(8)
        fn = builder.module.declare_intrinsic(
            "llvm.memcpy", [byte.as_pointer(), byte.as_pointer(), ir.IntType(64)]
        )
        flag = ir.Constant(ir.IntType(1), 0)
        builder.call(fn, [_pointer(builder, to, byte), _pointer(builder, at, byte), size, flag])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
