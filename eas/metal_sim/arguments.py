"""What a caller passes to a kernel, as memory: arrays where they are, numbers and bytes as constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.errors import ArgumentError, LostWrite
from eas.metal_sim.loaded import LoadedKernel
from eas.metal_sim.native import ParameterInfo
from eas.metal_sim.prepass import Parameter

MAX_CONSTANT_NBYTES = 4096  # what setBytes takes
_FLOATS = {b"f": dtypes.f32, b"e": dtypes.f16, b"b": dtypes.bf16}


@dataclass(slots=True)
class Binding:
    """One argument: its memory, and the object that keeps it alive."""

    parameter: Parameter
    array: np.ndarray | None
    is_const: bool

    @property
    def address(self) -> int:
        return 0 if self.array is None else self.array.ctypes.data

    @property
    def nbytes(self) -> int:
        return 0 if self.array is None else self.array.nbytes


def bind(kernel: LoadedKernel, args: Sequence[Any], named: Mapping[str, Any]) -> list[Binding]:
    """One binding per buffer parameter."""
    buffers = kernel.buffers
    names = [p.name for p in buffers]
    given = dict(zip(names, args, strict=False))
    unknown = [n for n in named if n not in names]
    if len(args) > len(buffers) or unknown or set(given) & set(named):
        what = f"no buffer {unknown[0]}" if unknown else f"{len(buffers)} buffers ({', '.join(names)}), got {len(args)} and {len(named)} by name"
        raise ArgumentError(f"kernel {kernel.name} has {what}")
    given.update(named)
    missing = [n for n in names if n not in given]
    if missing:
        raise ArgumentError(
            f"kernel {kernel.name} needs {', '.join(missing)}; its buffers are {', '.join(names)}"
        )
    return [_bind(kernel.name, p, kernel.info(p), given[p.name]) for p in buffers]


def _bind(kernel: str, parameter: Parameter, info: ParameterInfo, given: Any) -> Binding:
    is_const = bool(ord(info.is_const))
    if given is None:  # a buffer that a function constant switches off
        return Binding(parameter, None, is_const)
    array = _storage(given)
    if array is not None and array.flags.owndata and array.size and array is not given:  # NumPy makes some up for an address of 0
        raise ArgumentError(f"argument {parameter.name} of {kernel} has shape {array.shape}, but no memory", hint="make a new one: its memory was freed or never there")
    if array is None:
        constant = _constant(kernel, parameter, info, given)
        return Binding(parameter, np.frombuffer(constant, np.uint8).copy(), True)
    if not array.flags.c_contiguous:
        raise ArgumentError(
            f"argument {parameter.name} of {kernel} is not contiguous", hint=f"pass np.ascontiguousarray({parameter.name})"
        )
    if not is_const and not array.flags.writeable:
        raise LostWrite(
            f"kernel {kernel} may write {parameter.name}, which is read-only", hint=f"pass {parameter.name}.copy()"
        )
    return Binding(parameter, array, is_const)


def _storage(given: Any) -> np.ndarray | None:
    """The memory of an array or tensor; None for numbers and bytes."""
    if isinstance(given, np.ndarray):
        return given
    inner = getattr(given, "_array", None)  # a tensor of eas, in storage form
    if isinstance(inner, np.ndarray):
        return inner
    if hasattr(given, "__dlpack__") and not isinstance(given, np.generic):
        return np.from_dlpack(given)
    return None


def _constant(kernel: str, parameter: Parameter, info: ParameterInfo, given: Any) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        data = bytes(given)
        if len(data) > MAX_CONSTANT_NBYTES:
            raise ArgumentError(
                f"argument {parameter.name} of {kernel} has {len(data)} bytes; Metal takes constants of up to {MAX_CONSTANT_NBYTES}",
                hint="pass an array",
            )
        return data
    if isinstance(given, np.void):
        return given.tobytes()
    if not isinstance(given, bool | int | float | np.generic):
        raise ArgumentError(f"argument {parameter.name} of {kernel} is an array, a number or bytes, got {type(given).__name__}")
    kind, nbytes = info.kind, info.nbytes
    if kind in _FLOATS:
        dtype = _FLOATS[kind]
        with np.errstate(all="ignore"):
            value = numerics.round_to(np.asarray(given, np.float64), dtype)
        return numerics.encode(value, dtype).tobytes()
    number = int(given)
    if kind == b"?":
        return bytes([bool(number)])
    bits = 8 * nbytes
    lo, hi = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == b"i" else (0, (1 << bits) - 1)
    if kind not in (b"i", b"u") or number != given or not lo <= number <= hi:
        raise ArgumentError(f"argument {parameter.name} of {kernel} is {given}, which is no {parameter.type}")
    return number.to_bytes(nbytes, "little", signed=kind == b"i")
