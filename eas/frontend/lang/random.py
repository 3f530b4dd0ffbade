"""Random numbers by counter: the same seed and offset give the same bits on every backend."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.errors import TypeMismatch
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.lang.cast import cast
from eas.frontend.lang.math import cos, log, maximum, sin, sqrt, where
from eas.frontend.values import (
    as_block,
    cast_to,
    constant,
    emit_inst,
    fit,
    lanewise,
    refuse_pointer,
)

Four = tuple[Block, Block, Block, Block]
_UNIT = 4.6566127342e-10  # just below 2**-31: the largest 31-bit number stays below 1
_TURN = 6.283185307179586


def _integer(x: Any, what: str) -> Block:
    block = as_block(x, what)
    if not block.type.is_value:
        refuse_pointer(what, block)
    if not block.dtype.is_int:
        raise TypeMismatch(
            f"{what} must be an integer, got {block.type}",
            hint="mk.cast(x, mk.i32)",
            loc=current().here(),
        )
    return block


def _words(x: Block) -> tuple[Block, Block]:
    """Low and high 32 bits; narrower integers are extended with their sign."""
    wide = cast_to(x, dtypes.u64)
    return cast_to(wide, dtypes.u32), cast_to(lanewise("shr", wide, 32), dtypes.u32)


def philox(seed: Operand, c0: Operand, c1: Operand = 0, c2: Operand = 0, c3: Operand = 0) -> Four:
    """Philox-4x32-10: four u32 blocks of random bits for a counter c0..c3 (taken modulo 2**32) under a 64-bit seed."""
    low, high = _words(_integer(seed, "the seed"))
    counters = [cast_to(_integer(c, "a counter of philox"), dtypes.u32) for c in (c0, c1, c2, c3)]
    a, b, c, d = emit_inst("philox", *fit("philox", [*counters, low, high])).outs
    return Block(a), Block(b), Block(c), Block(d)


def randint4x(seed: Operand, offset: Operand) -> Four:
    """Four u32 blocks of random bits per offset; 64-bit offsets count in full."""
    block = _integer(offset, "the offset")
    if block.dtype.bits < 64:
        return philox(seed, block)
    return philox(seed, *_words(block))


def randint(seed: Operand, offset: Operand) -> Block:
    """Random bits per offset; u32."""
    return randint4x(seed, offset)[0]


def uniform(bits: Block) -> Block:
    """u32 bits as f32 in [0, 1), bit for bit as Triton's uint_to_uniform_float."""
    x = cast(bits, dtypes.i32, bitcast=True)
    folded = where(lanewise("lt", x, 0), lanewise("sub", lanewise("neg", x), 1), x)
    return lanewise("mul", cast_to(folded, dtypes.f32), constant(_UNIT, dtypes.f32))


def rand4x(seed: Operand, offset: Operand) -> Four:
    """Four blocks uniform in [0, 1) per offset; f32."""
    a, b, c, d = randint4x(seed, offset)
    return uniform(a), uniform(b), uniform(c), uniform(d)


def rand(seed: Operand, offset: Operand) -> Block:
    """Uniform in [0, 1) per offset; f32."""
    return uniform(randint(seed, offset))


def _polar(u1: Block, u2: Block) -> tuple[Block, Block]:
    """Radius and angle of the Box-Muller transform; u1 is kept away from log(0)."""
    radius = sqrt(lanewise("mul", log(maximum(u1, 1.0e-7)), -2.0))
    return radius, lanewise("mul", u2, _TURN)


def randn4x(seed: Operand, offset: Operand) -> Four:
    """Four blocks of the standard normal distribution per offset; f32."""
    u = rand4x(seed, offset)
    (r, angle), (s, other) = _polar(u[0], u[1]), _polar(u[2], u[3])
    pairs = ((r, cos(angle)), (r, sin(angle)), (s, cos(other)), (s, sin(other)))
    a, b, c, d = (lanewise("mul", radius, turn) for radius, turn in pairs)
    return a, b, c, d


def randn(seed: Operand, offset: Operand) -> Block:
    """The standard normal distribution per offset; f32."""
    a, b, _, _ = randint4x(seed, offset)
    radius, angle = _polar(uniform(a), uniform(b))
    return lanewise("mul", radius, cos(angle))
