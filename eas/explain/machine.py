"""What a backend of this machine can do at most: bandwidth and arithmetic, measured once and kept in the cache directory."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import hashlib
import json
import platform
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from eas import mk
from eas._version import __version__
from eas.base import config, dtypes
from eas.base.types import Space, Type
from eas.compiler import CompiledKernel, compile_kernel
from eas.frontend.constexpr import Static
from eas.interop.devices import device_of
from eas.interop.memory import allocate
from eas.runtime import Runtime
from eas.runtime.disk_cache import default_cache
from eas.runtime.native.host_cpu import num_threads
from eas.runtime.native.host_target import host_key, host_target

if TYPE_CHECKING:
    constexpr: TypeAlias = Any  # the parameter is the value itself
else:
    from eas.frontend.constexpr import constexpr

_CHAINS = 12  # sums that do not wait for each other: twice the latency of an FMA, on two ports
_MOST_ELEMENTS = 1 << 24  # 64 MiB per array: more than most caches hold
_FMA_LANES = {"mps": 256, "sim": 256, "interp": 1 << 14}  # elements of a sum; a vector of the CPU elsewhere
_LONG_ENOUGH = 0.02  # seconds of one launch whose time is believed
_REPEATS = 12
_F32, _I32 = Type(dtypes.f32, (), Space.DEVICE), Type(dtypes.i32)


class Roof(NamedTuple):
    """The limits of a backend: the sloped and the flat part of its roofline."""

    bytes_per_second: float
    flops_per_second: float
    about: str


def copy_kernel(x, y, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N), offs < N)


def fma_kernel(out, trips, BLOCK: constexpr, CHAINS: constexpr):
    x = mk.cast(mk.arange(0, BLOCK), mk.f32) * 1e-9
    sums = tuple(x + float(k) for k in range(CHAINS))
    for _ in range(trips):
        sums = tuple(mk.fma(a, x, x) for a in sums)
    total = sums[0]
    for a in sums[1:]:
        total = total + a
    mk.store(out, mk.program_id(0), mk.sum(total))


_known: dict[str, Roof] = {}


def roof_of(runtime: Runtime, seen: float = 0.0) -> Roof:
    """The limits of a backend; an earlier process may have measured them.

    Who has `seen` more float operations per second than the peak shows that it was measured on a busy machine: it is measured again.
    """
    about = _machine(runtime)
    key = hashlib.sha256("\0".join(("roofline", "1", __version__, host_key(), about)).encode()).hexdigest()
    found = _known.get(key) or _stored(key, about)
    if found is None or seen > found.flops_per_second:
        old = found or Roof(0.0, 0.0, about)
        found = Roof(max(_bandwidth(runtime), old.bytes_per_second), max(_peak(runtime), old.flops_per_second, seen), about)
        default_cache().put(key, json.dumps([found.bytes_per_second, found.flops_per_second]).encode())
    _known[key] = found
    return found


def _machine(runtime: Runtime) -> str:
    threads = config.num_threads() or num_threads()
    return f"{runtime.name} on {platform.machine()} ({host_target().name}), {threads} thread{'s' * (threads != 1)}, f32"


def _stored(key: str, about: str) -> Roof | None:
    data = default_cache().get(key)
    try:
        bandwidth, peak = json.loads(data or b"[]")
        return Roof(float(bandwidth), float(peak), about)
    except (ValueError, TypeError):
        return None


def _bandwidth(runtime: Runtime) -> float:
    """Bytes per second of a copy that does not fit the caches."""
    n, block = 1 << 14, 4096
    while True:
        x, y = _array(runtime, n), _array(runtime, n)
        x[...] = 1
        y[...] = 0  # pages exist before they are measured
        seconds = _seconds(runtime, _compiled(copy_kernel, x=_F32, y=_F32, N=_I32, BLOCK=Static(block)), [x, y, n], n // block)
        if seconds > _LONG_ENOUGH or n >= _MOST_ELEMENTS:
            return 8 * n / seconds
        n *= 4


def _peak(runtime: Runtime) -> float:
    """Float operations per second of fused multiply-adds in registers."""
    is_slow = runtime.name == "interp"  # one NumPy call per operation
    programs, block = 1 if is_slow else 64, _FMA_LANES.get(runtime.name, host_target().vector_nbytes // 4)
    out, trips = _array(runtime, programs), 4 if is_slow else 64
    compiled = _compiled(fma_kernel, out=_F32, trips=_I32, BLOCK=Static(block), CHAINS=Static(_CHAINS))
    while True:
        seconds = _seconds(runtime, compiled, [out, trips], programs)
        if seconds > _LONG_ENOUGH or trips >= 1 << 22:
            return 2 * _CHAINS * block * trips * programs / seconds
        trips *= 4


def _array(runtime: Runtime, n: int) -> Any:
    device = device_of("mps" if runtime.name == "mps" else "cpu")
    return allocate((n,), dtypes.f32, device)


def _compiled(fn: Any, **arguments: Type | Static) -> CompiledKernel:
    return compile_kernel(fn, arguments, "relaxed")


def _seconds(runtime: Runtime, compiled: CompiledKernel, args: list[Any], programs: int) -> float:
    """The best of some launches."""
    return float(np.min(runtime.benchmark(compiled.variant(), args, (programs, 1, 1), warmup=1, repeat=_REPEATS)))
