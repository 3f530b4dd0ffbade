"""Random numbers by counter, bit for bit as Triton's."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.frontend.block import Block
from eas.frontend.lang import random as eas_random
from eas.frontend.values import cast_to, constant, emit
from eas.triton.language import meaning
from eas.triton.language.meaning import refuse, to_tensor
from eas.triton.language.types import unwrapped

N_ROUNDS_DEFAULT = 10
Four = tuple[Block, Block, Block, Block]


def _need_ten(n_rounds: Any) -> None:
    if unwrapped(n_rounds) != N_ROUNDS_DEFAULT:
        refuse(f"n_rounds={n_rounds!r}: Philox is computed with {N_ROUNDS_DEFAULT} rounds here", "leave n_rounds out")


def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Philox-4x32-10: four u32 blocks of random bits for a counter under a 64-bit seed."""
    _need_ten(n_rounds)
    key = to_tensor(seed, "the seed")
    if not key.type.is_value or not key.dtype.is_int:
        refuse(f"the seed of a random number is an integer, got {key!r}", "pass an int, or load one from memory")
    return eas_random.philox(cast_to(key, dtypes.u64), *(to_tensor(c) for c in (c0, c1, c2, c3)))


def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """The same under a key of two 32-bit halves."""
    low, high = (cast_to(cast_to(to_tensor(k), dtypes.u32), dtypes.u64) for k in (k0, k1))
    return philox(meaning.binary("or", low, meaning.binary("shl", high, 32)), c0, c1, c2, c3, n_rounds)


def randint4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four u32 blocks of random bits per offset."""
    block = to_tensor(offset)
    if block.dtype.bits == 64:
        high = cast_to(meaning.binary("shr", cast_to(block, dtypes.u64), 32), dtypes.u32)
        return philox(seed, cast_to(block, dtypes.u32), high, 0, 0, n_rounds)
    return philox(seed, block, 0, 0, 0, n_rounds)


def randint(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Block:
    """Random bits per offset; u32."""
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x: Any) -> Block:
    """Random bits of 32 or 64 as f32 in [0, 1)."""
    block = to_tensor(x)
    if block.dtype.bits == 32:
        return eas_random.uniform(meaning.bitcast(block, dtypes.u32))
    bits = meaning.bitcast(block, dtypes.i64)
    folded = emit("select", meaning.binary("lt", bits, 0), meaning.binary("sub", emit("neg", bits), 1), bits)
    return emit("mul", cast_to(folded, dtypes.f32), constant(1.0842020432385337e-19, dtypes.f32, folded.shape))


def rand(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Block:
    """Uniform in [0, 1) per offset."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed: Any, offsets: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four blocks uniform in [0, 1) per offset."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return uint_to_uniform_float(a), uint_to_uniform_float(b), uint_to_uniform_float(c), uint_to_uniform_float(d)


def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[Block, Block]:
    """Two normal numbers of two uniform ones (Box and Muller)."""
    b = meaning.binary
    kept = emit("fmax", *meaning.operands("maximum", u1, 1.0e-7))
    radius, angle = emit("sqrt", b("mul", emit("log", kept), -2.0)), b("mul", u2, 6.283185307179586)
    return b("mul", radius, emit("cos", angle)), b("mul", radius, emit("sin", angle))


def randn(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Block:
    """The standard normal distribution per offset."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))[0]


def randn4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four blocks of the standard normal distribution per offset."""
    u = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(u[0], u[1]), *pair_uniform_to_normal(u[2], u[3]))
