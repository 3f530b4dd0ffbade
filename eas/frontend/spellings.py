"""Words of NumPy, torch and Triton: parameters that are taken under them too, and hints for what has none here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from eas.base.config import closest
from eas.base.errors import TypeMismatch
from eas.frontend.builder import current

_SAME = {"dim": "axis", "keepdim": "keep_dims", "keepdims": "keep_dims"}

_MASK = "a kernel says itself what lies outside: pass mask=offsets < n, and other= to a load"
_NO_PARAMETER = {
    "boundary_check": _MASK,
    "padding_option": _MASK,
    "volatile": "every load reads memory; use atomics for what other programs write meanwhile",
    "allow_tf32": "products of f32 are products of f32: leave it out",
    "out": "values are not written in place: use what the call returns",
    "dims": "an axis is axis=, or dim=",
    "dtype": "convert the result: .to(mk.f32)",
}

_POINTERS = "address memory with offsets: mk.load(x + i[:, None] * stride + j[None, :], mask=...)"
NO_SUCH_NAME = {
    "make_block_ptr": _POINTERS,
    "advance": "add to the offsets instead: offs += BLOCK",
    "make_tensor_descriptor": _POINTERS,
    "load_tensor_descriptor": _POINTERS,
    "store_tensor_descriptor": _POINTERS,
    "experimental_descriptor_load": _POINTERS,
    "experimental_descriptor_store": _POINTERS,
    "dot_scaled": "scale the operands, then mk.dot",
    "inline_asm_elementwise": "mk.inline(...) takes a piece of text per target",
    "map_elementwise": "call the function on blocks: it works on every element",
    "math": "the functions are in mk itself: mk.exp(x)",
    "extra": "the functions are in mk itself: mk.exp(x)",
    "libdevice": "the functions are in mk itself: mk.exp(x)",
    "sqrt_rn": "mk.sqrt(x) is correctly rounded",
    "div_rn": "x / y is correctly rounded",
    "float8e4nv": "mk.f8e4m3",
    "float8e5": "mk.f8e5m2",
    "tensor": "leave the annotation out, or write object",
    "dtype": "a dtype is passed as an eas.constexpr parameter",
    "pointer_type": "a buffer is passed as a kernel argument",
    "swizzle2d": "compute the order of programs from mk.program_id",
    "array": "fill a block with mk.full, or pass an array as a kernel argument and mk.load from it",
    "matmul": "mk.dot(a, b), or a @ b",
    "concatenate": "mk.cat(a, b)",
    "clip": "mk.clamp(x, lo, hi)",
    "power": "mk.pow(x, y), or x ** y",
    "absolute": "mk.abs(x)",
    "astype": "mk.cast(x, dtype)",
    "stack": "mk.join(a, b) makes a last axis of two, mk.cat(a, b) puts b after a",
    "norm": "mk.sqrt(mk.sum(x * x))",
    "linspace": "start + mk.arange(0, n) * ((end - start) / (n - 1))",
    "pi": "math.pi: numbers of Python and of its libraries are constants of the kernel",
    "inf": "float('inf'), or math.inf",
    "nan": "float('nan'), or math.nan",
    "threadIdx": "mk.tid(0, BLOCK) is the position of a thread, mk.tid(0, 8, axis=1) that along another axis",
    "thread_idx": "mk.tid(0, BLOCK) is the position of a thread, mk.tid(0, 8, axis=1) that along another axis",
    "syncwarp": "the lanes of a simdgroup run together; mk.barrier() waits for all threads",
    "blockDim": "the threads of a threadgroup are the end of mk.tid(0, BLOCK): BLOCK is an eas.constexpr parameter",
}

NO_SUCH_METHOD = {
    "astype": "x.to(mk.f32)",
    "item": "a runtime value has no Python number: compute with it, and mk.store it",
    "tolist": "a runtime value has no Python numbers: compute with it, and mk.store it",
    "numpy": "a runtime value has no Python numbers: compute with it, and mk.store it",
    "append": "a block keeps its size: mk.cat(a, b) makes a longer one",
    "unsqueeze": "x[:, None], or mk.expand_dims(x, axis)",
    "view": "x.reshape(rows, cols)",
    "clip": "x.clamp(lo, hi)",
    "matmul": "x @ y",
}


def spelled(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`fn` with the parameter names of NumPy and torch, and a refusal of others that says what to write."""
    known = inspect.signature(fn).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return fn

    needed = [n for n, p in known.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]

    @functools.wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        for word in [w for w in options if w not in known]:
            ours = _SAME.get(word, "")
            if ours not in known:
                raise _no_parameter(name, word, known)
            if ours in options:
                raise TypeMismatch(f"{name} got {word} and {ours}, which are the same", hint=f"leave out {word}", loc=current(name).here())
            options[ours] = options.pop(word)
        if len(args) < len(needed) and (missing := [n for n in needed[len(args) :] if n not in options]):
            raise _missing(name, missing, known)
        return fn(*args, **options)

    return call


def _no_parameter(name: str, word: str, known: Any) -> TypeMismatch:
    near = closest(word, tuple(known))
    hint = _NO_PARAMETER.get(word) or (f"did you mean {near}?" if near else f"it takes {', '.join(known)}")
    return TypeMismatch(f"{name} has no parameter {word}", hint=hint, loc=current(name).here())


def _missing(name: str, missing: list[str], known: Any) -> TypeMismatch:
    if name == "mk.store":  # by pointer, what is missing is the value
        return TypeMismatch("store got an address only: its value is missing", hint="mk.store(buffer, offsets, value), or mk.store(buffer + offsets, value)", loc=current(name).here())
    taken = [word for word in known if word not in ("self", "cache_modifier", "eviction_policy", "volatile")]
    return TypeMismatch(f"{name} is called without {' and '.join(missing)}", hint=f"{name}({', '.join(taken)})", loc=current(name).here())
