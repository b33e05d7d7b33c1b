"""Vector steps for the compiled CPU loop, as LLVM code that numba places inline.

Owns: widening, decoding, turning and rounding a vector; copying bytes.
Does not own: loops and addresses (loop.py, loop_codes.py).
Invariant: bit-equal to torch: products are not fused with sums, and bf16 rounds to nearest even.
"""

from __future__ import annotations

from typing import Any, Literal

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 16
"""Floats a vector step does at once: one AVX-512 register, or two to four of a smaller machine."""

Kind = Literal["bf16", "fp16", "fp32"]

_I8, _I16, _I32, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()


def _pointer(builder: Any, address: Any, element: Any) -> Any:
    return builder.inttoptr(address, element.as_pointer())


def _load(builder: Any, address: Any, element: Any, lanes: int) -> Any:
    vector = ir.VectorType(element, lanes)
    return builder.load(_pointer(builder, address, vector), align=1)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, _pointer(builder, address, value.type), align=1)


def _const(value: int, lanes: int) -> Any:
    return ir.Constant(ir.VectorType(_I32, lanes), [value] * lanes)


def _spread(builder: Any, value: Any, lanes: int) -> Any:
    """A vector with `value` in every lane."""
    one = ir.VectorType(value.type, 1)
    lane = builder.insert_element(ir.Constant(one, ir.Undefined), value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(lane, lane, _const(0, lanes))


def _element(kind: Kind) -> Any:
    return _F32 if kind == "fp32" else _I16


def _widen(builder: Any, bits: Any, lanes: int, kind: Kind) -> Any:
    floats = ir.VectorType(_F32, lanes)
    if kind == "fp32":
        return bits
    if kind == "fp16":
        return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), lanes)), floats)
    wide = builder.zext(bits, ir.VectorType(_I32, lanes))
    return builder.bitcast(builder.shl(wide, _const(16, lanes)), floats)


def _narrow(builder: Any, value: Any, lanes: int, kind: Kind) -> Any:
    halves = ir.VectorType(_I16, lanes)
    if kind == "fp16":
        return builder.bitcast(builder.fptrunc(value, ir.VectorType(ir.HalfType(), lanes)), halves)
    # Round to nearest even. A NaN here was a bf16 NaN: its low bits are 0, so nothing carries.
    bits = builder.bitcast(value, ir.VectorType(_I32, lanes))
    odd = builder.and_(builder.lshr(bits, _const(16, lanes)), _const(1, lanes))
    rounded = builder.add(bits, builder.add(odd, _const(0x7FFF, lanes)))
    return builder.trunc(builder.lshr(rounded, _const(16, lanes)), halves)


def _shuffled(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(order)), order))


def _step(num_addresses: int, has_scale: bool, emit: Any) -> Any:
    """An inline function of int64 addresses, and perhaps a float32, out of an LLVM emitter."""
    signature = types.void(*[types.int64] * num_addresses, *[types.float32] * has_scale)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit(builder, *args)
        return context.get_dummy_value()

    # numba wants the arguments spelt out.
    typed: dict[int, Any] = {
        2: lambda typing, a, b: (signature, generate),
        3: lambda typing, a, b, c: (signature, generate),
        4: lambda typing, a, b, c, d: (signature, generate),
        6: lambda typing, a, b, c, d, e, f: (signature, generate),
    }
    return intrinsic(typed[num_addresses + has_scale])


def turn_pairs(lanes: int, source: Kind, target: Kind, interleaved: bool) -> Any:
    """Make `step(dst, dst_gap, src, src_gap, cos, sin)`: turn `lanes` pairs at `src` into `dst`.

    A gap is the distance in bytes between the two of a pair; interleaved pairs have none.
    """

    def emit(b: Any, dst: Any, dst_gap: Any, src: Any, src_gap: Any, cos: Any, sin: Any) -> None:
        if interleaved:
            both = _load(b, src, _element(source), 2 * lanes)
            first = _shuffled(b, both, both, list(range(0, 2 * lanes, 2)))
            second = _shuffled(b, both, both, list(range(1, 2 * lanes, 2)))
        else:
            first = _load(b, src, _element(source), lanes)
            second = _load(b, b.add(src, src_gap), _element(source), lanes)
        x, y = _widen(b, first, lanes, source), _widen(b, second, lanes, source)
        c, s = _load(b, cos, _F32, lanes), _load(b, sin, _F32, lanes)
        turned_x = _narrow(b, b.fsub(b.fmul(x, c), b.fmul(y, s)), lanes, target)
        turned_y = _narrow(b, b.fadd(b.fmul(y, c), b.fmul(x, s)), lanes, target)
        if interleaved:
            order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
            _store(b, _shuffled(b, turned_x, turned_y, order), dst)
        else:
            _store(b, turned_x, dst)
            _store(b, turned_y, b.add(dst, dst_gap))

    return _step(6, False, emit)


def round_to(lanes: int, target: Kind) -> Any:
    """Make `step(dst, src)`: round `lanes` floats at `src` into `dst`."""
    return _step(
        *(2, False),
        lambda b, dst, src: _store(b, _narrow(b, _load(b, src, _F32, lanes), lanes, target), dst),
    )


def decode_int8(lanes: int) -> Any:
    """Make `step(dst, src, static, scale)`: codes × (static × scale), as floats."""

    def emit(b: Any, dst: Any, src: Any, static: Any, scale: Any) -> None:
        codes = b.sitofp(_load(b, src, _I8, lanes), ir.VectorType(_F32, lanes))
        by = b.fmul(_load(b, static, _F32, lanes), _spread(b, scale, lanes))
        _store(b, b.fmul(codes, by), dst)

    return _step(3, True, emit)


def decode_int4(lanes: int, is_high: bool) -> Any:
    """Make `step(dst, src, scale)`: (nibble − 8) × scale as floats."""

    def emit(b: Any, dst: Any, src: Any, scale: Any) -> None:
        packed = b.zext(_load(b, src, _I8, lanes), ir.VectorType(_I32, lanes))
        nibble = b.lshr(packed, _const(4, lanes)) if is_high else b.and_(packed, _const(15, lanes))
        code = b.sitofp(b.sub(nibble, _const(8, lanes)), ir.VectorType(_F32, lanes))
        _store(b, b.fmul(code, _spread(b, scale, lanes)), dst)

    return _step(2, True, emit)


@intrinsic  # type: ignore[untyped-decorator]
def bf16_at(typing: Any, address: Any) -> Any:
    """The bf16 at an address, as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.load(_pointer(builder, args[0], _I16), align=1)
        wide = builder.shl(builder.zext(bits, _I32), ir.Constant(_I32, 16))
        return builder.bitcast(wide, _F32)

    return types.float32(types.int64), generate


def transpose_halves(side: int) -> Any:
    """Make `step(dst, dst_gap, src, src_gap)`: a square of 2-byte values, rows to columns.

    Gaps are bytes from row to row. `side` is a power of two: each round interleaves the upper with
    the lower half of the rows, which turns the bits of the index by one.
    """
    low = [i // 2 + (i % 2) * side for i in range(side)]
    high = [i + side // 2 for i in low]

    def emit(b: Any, dst: Any, dst_gap: Any, src: Any, src_gap: Any) -> None:
        i64 = ir.IntType(64)
        at = [b.add(src, b.mul(src_gap, ir.Constant(i64, i))) for i in range(side)]
        rows = [_load(b, address, _I16, side) for address in at]
        for _ in range(side.bit_length() - 1):
            pairs = [(rows[i], rows[i + side // 2]) for i in range(side // 2)]
            rows = [_shuffled(b, x, y, order) for x, y in pairs for order in (low, high)]
        for i, row in enumerate(rows):
            _store(b, row, b.add(dst, b.mul(dst_gap, ir.Constant(i64, i))))

    return _step(4, False, emit)


@intrinsic  # type: ignore[untyped-decorator]
def copy_half(typing: Any, dst: Any, src: Any) -> Any:
    """Copy the 2 bytes at `src` to `dst`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[1], _I16), align=1)
        builder.store(value, _pointer(builder, args[0], _I16), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


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
