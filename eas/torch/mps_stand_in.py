"""A stand-in for torch's MPS on machines without it: plain torch tensors on `mps`, and `torch.mps.compile_shader`.

Their memory is that of the fake Metal, reached as on a Mac: the storage's pointer is the MTLBuffer, so `data_ptr()` is
no address. torch's operators run on the CPU; shaders run on the software Metal, not before somebody looks at results.
mps is torch's accelerator inside, so `backward()` runs in the thread that torch has for the device, as on a Mac. Torch makes
such threads at the first `backward()` of a process, so `guard_device` comes before that.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eas import _torch_mps
from eas.base.errors import BackendUnavailable
from eas.interop import dlpack
from eas.interop.devices import device_of
from eas.interop.memory import allocate
from eas.interop.targets import as_dtype
from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.library import Kernel, Library

MPS, META = 13, 14  # of c10::DeviceType
CHECKED_TORCH = ("2.13",)
TABLE_WORDS = 48  # at least as many as the virtual functions of each of these have
TYPE, EXCHANGE_DEVICE, GET_DEVICE, GET_STREAM, GET_DEFAULT_STREAM, EXCHANGE_STREAM = 0, 1, 2, 5, 6, 9  # of c10::impl::DeviceGuardImplInterface
IS_BUILT, IS_AVAILABLE, HAS_PRIMARY_CONTEXT, HAS_MPS = 2, 3, 4, 16  # of at::MPSHooksInterface
RETURN_MPS = {"x86_64": bytes.fromhex("b80d00000031d2c3"), "aarch64": bytes.fromhex("a0018052010080d2c0035fd6")}  # the device {MPS, 0}, or its stream 0
RETURN_TRUE = {"x86_64": bytes.fromhex("b801000000c3"), "aarch64": bytes.fromhex("20008052c0035fd6")}
MAX_BYTES = 4096
SIMD_WIDTH = 32
CASTS = {"fp16": np.float16, "int32": np.int32, "int16": np.int16, "int8": np.int8, "uint8": np.uint8}
_buffers: dict[int, tuple[int, int]] = {}  # MTLBuffer -> address and bytes of its memory
_queue: list[Callable[[], None]] = []  # of torch's stream: what has not run yet
_installed: list[Any] = []  # torch forgets the kernels of a library that nobody holds


def why_unavailable() -> str | None:
    """What keeps the stand-in from being used, as the end of a sentence, or None. It relies on where torch's C++ keeps things, so on versions that were looked at."""
    import torch

    version = str(torch.__version__).partition("+")[0]
    if sys.platform != "linux" or platform.machine() not in RETURN_MPS:
        return f"it is for Linux on {' and '.join(RETURN_MPS)}, this is {sys.platform} on {platform.machine()}"
    if version.rpartition(".")[0] not in CHECKED_TORCH:
        return f"it replaces entries of torch's tables of device guards and hooks, whose layout was checked for torch {', '.join(CHECKED_TORCH)}; this is {version}"
    return None if _has_known_layout(torch) else f"torch {version} has other tables of device guards or hooks than it expects"


@contextmanager
def stand_in(mps_runtime: Any) -> Iterator[StandIn]:
    """torch has MPS inside, on the memory of a `MetalRuntime` of the fake; for tests and `eas verify` only."""
    import torch

    why = why_unavailable()
    if why is not None:
        raise BackendUnavailable(f"there is no stand-in for torch's MPS: {why}", hint="torch on MPS itself needs a Mac")
    _install(torch, mps_runtime)
    patched = StandIn()
    places: list[tuple[Any, str, Any]] = [
        (torch.backends.mps, "is_available", lambda: True),
        (torch.mps, "compile_shader", ShaderLibrary),
        (torch.mps, "synchronize", patched.synchronize),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    try:
        for owner, name, value in places:
            setattr(owner, name, value)
        with _accelerator(torch):
            yield patched
    finally:
        flush()
        ours = _torch_mps.runtime()
        assert isinstance(ours, _torch_mps.TorchMpsRuntime)
        ours.forget()  # torch has no stream any more that somebody could wait for
        for owner, name, value in before:
            setattr(owner, name, value)


class StandIn:
    """What tests ask the stand-in for."""

    def __init__(self) -> None:
        self.synchronized = 0
        """How often somebody waited for torch's stream."""

    def synchronize(self) -> None:
        self.synchronized += 1
        flush()

    @property
    def pending(self) -> int:
        """Shaders that have not run yet."""
        return len(_queue)


def flush() -> None:
    """Run what stands in torch's stream."""
    while _queue:
        _queue.pop(0)()


# --- tensors ----------------------------------------------------------------------------------------


@functools.cache
def _install(torch: Any, mps_runtime: Any) -> None:
    """Give torch's dispatch key MPS kernels, and its device a guard that does nothing, for the life of the process."""
    guard_device()
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(functools.partial(_run, torch, mps_runtime), "MPS")
    aten = torch.library.Library("aten", "IMPL", "MPS")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        is_composed = name.startswith("aten::") and has_kernel(name, "CompositeExplicitAutogradNonFunctional")
        if is_composed or name in ("aten::copy_", "aten::_to_copy"):
            aten.impl(name.removeprefix("aten::"), functools.partial(_run, torch, mps_runtime, _overload(torch, name)))
    _installed.extend((rest, aten))


def _library(torch: Any, name: str) -> ctypes.CDLL:
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", name))


def _guards(torch: Any) -> Any:
    """torch's guards of devices, by the number of the device."""
    return (ctypes.c_void_p * 22).in_dll(_library(torch, "libc10.so"), "_ZN3c104impl26device_guard_impl_registryE")


def _hooks(torch: Any) -> int:
    """Where the object is that torch asks what MPS can do."""
    found = _library(torch, "libtorch_cpu.so")["_ZN2at6detail11getMPSHooksEv"]
    found.restype = ctypes.c_void_p
    return int(found())


def _has_known_layout(torch: Any) -> bool:
    """Whether virtual functions answer where we look: the guard of `meta` with its device, the hooks with whether there is MPS."""
    try:
        guard, hooks = _guards(torch)[META], _hooks(torch)
        devices = [_answer(guard, i) for i in (TYPE, GET_DEVICE, GET_STREAM)] if guard else []
        flags = [_answer(hooks, i) for i in (IS_BUILT, IS_AVAILABLE, HAS_MPS)]
    except (OSError, AttributeError, ValueError):  # no such library, or no such table in it
        return False
    return devices == [META] * 3 and flags == [int(torch.backends.mps.is_available())] * 3


def _answer(instance: int, index: int) -> int:
    """The first byte of what a virtual function without arguments, or with a device, returns."""
    table = (ctypes.c_void_p * (index + 1)).from_address(ctypes.c_void_p.from_address(instance).value or 0)
    return int(ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint16)(table[index] or 0)(instance, META)) & 0xFF


def _table_with(instance: int, indices: Sequence[int], code: bytes) -> int:
    """The virtual functions of a C++ object again, some of them replaced by code; it stays for the life of the process."""
    head = 2 * ctypes.sizeof(ctypes.c_void_p)  # the offset to the top and the type
    original = ctypes.c_void_p.from_address(instance).value or 0
    table = (ctypes.c_void_p * TABLE_WORDS).from_buffer_copy((ctypes.c_void_p * TABLE_WORDS).from_address(original - head))
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    for index in indices:
        table[2 + index] = ctypes.addressof(ctypes.c_char.from_buffer(page))
    _installed.extend((table, page))
    return ctypes.addressof(table) + head


@functools.cache
def guard_device() -> None:
    """Let torch enter the device mps: with the guard of `meta`, which does nothing, but for what it says of itself."""
    import torch

    guards = _guards(torch)
    places = (TYPE, EXCHANGE_DEVICE, GET_DEVICE, GET_STREAM, GET_DEFAULT_STREAM, EXCHANGE_STREAM)
    guard = ctypes.c_void_p(_table_with(guards[META] or 0, places, RETURN_MPS[platform.machine()]))
    guards[MPS] = ctypes.addressof(guard)
    _installed.append(guard)


@functools.cache
def _hooks_of_mps(torch: Any) -> int:
    """Virtual functions of torch's hooks that say that MPS is there."""
    return _table_with(_hooks(torch), (IS_BUILT, IS_AVAILABLE, HAS_PRIMARY_CONTEXT, HAS_MPS), RETURN_TRUE[platform.machine()])


@contextmanager
def _accelerator(torch: Any) -> Iterator[None]:
    """mps is torch's accelerator inside: what its engine of gradients asks for."""
    table = ctypes.c_void_p.from_address(_hooks(torch))
    before, table.value = table.value, _hooks_of_mps(torch)
    try:
        yield
    finally:
        table.value = before


def _overload(torch: Any, name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _run(torch: Any, mps_runtime: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """An operator of torch, on the CPU side of its tensors."""
    flush()
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    if _is_view(op) or op._schema.name == "aten::set_":  # no elements are touched: the CPU's kernel knows all
        return op.redispatch(keys, *args, **kwargs)
    twins: list[tuple[Any, Any]] = []
    tree = torch.utils._pytree
    host_args, host_kwargs = tree.tree_map(functools.partial(_host, torch, twins), (args, kwargs))
    device = kwargs.get("device")
    if device is not None:
        host_kwargs["device"] = torch.device("cpu")
    made = _for_numbers(op, args)(*host_args, **host_kwargs)
    for original, twin in twins:
        if original.shape != twin.shape:  # an `out` of another size: torch gives it new memory
            torch.ops.aten.set_.source_Tensor.redispatch(keys, original, new_tensor(torch, mps_runtime, twin))
    stays = device is not None and torch.device(device).type == "cpu"

    def back(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        given = next((original for original, twin in twins if twin is value), None)
        return given if given is not None else value if stays else new_tensor(torch, mps_runtime, value)

    return tree.tree_map(back, made)


def _for_numbers(op: Any, args: Sequence[Any]) -> Any:
    """The operator, or all of its overloads where a number stands for a tensor."""
    kinds = (str(a.type) for a in op._schema.arguments)
    return op.overloadpacket if any(isinstance(a, int | float) and kind == "Tensor" for a, kind in zip(args, kinds, strict=False)) else op


def _is_view(op: Any) -> bool:
    returns = op._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write


def _host(torch: Any, twins: list[tuple[Any, Any]], value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "mps":
        return torch.device("cpu")
    if not isinstance(value, torch.Tensor):
        return value
    twin = _twin(torch, value) if value.device.type == "mps" else value
    twins.append((value, twin))
    return twin


def _twin(torch: Any, tensor: Any) -> Any:
    """A CPU tensor on the memory of an mps tensor."""
    if not tensor.numel():  # an `out` may still grow
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    memory = torch.from_numpy(_memory(tensor))
    size = tensor.element_size()
    elements = memory[: memory.numel() // size * size].view(tensor.dtype)
    return torch.as_strided(elements, tensor.shape, tensor.stride(), tensor.storage_offset())


def _memory(tensor: Any) -> Any:
    """The bytes of a storage."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return np.empty(0, np.uint8)
    address, nbytes = _buffers[storage.data_ptr()]
    return np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(address))


def new_tensor(torch: Any, mps_runtime: Any, source: Any) -> Any:
    """A plain torch tensor on mps with the elements and strides of a CPU tensor."""
    source = source.detach()
    dtype, home = as_dtype(source.dtype), device_of("mps")
    count = 1 + sum((n - 1) * s for n, s in zip(source.shape, source.stride(), strict=True)) if source.numel() else 0
    array = allocate((max(count, 1),), dtype, home)
    place = mps_runtime.memory.place_of(array.ctypes.data, 1)
    _buffers[place.buffer.handle] = (place.buffer.address, place.buffer.nbytes)
    made = torch.from_dlpack(_Exported(dlpack.export(array, dtype, home.dlpack_device)))
    made = made.as_strided(source.shape, source.stride(), 0)
    _twin(torch, made).copy_(source)
    return made


class _Exported:
    """A capsule as the object that torch asks for one."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (8, 0)


# --- torch.mps.compile_shader -------------------------------------------------------------------------


class ShaderLibrary:
    """What `torch.mps.compile_shader(source)` returns: its kernels are attributes."""

    def __init__(self, source: str) -> None:
        if not isinstance(source, str):
            raise TypeError(f"compile_shader takes a str, got {type(source).__name__}")
        try:
            self._library = Library(source, name="program_source", language="3.1")
            self._kernels = {name: ShaderKernel(self._library.kernel(name)) for name in self._library.kernel_names}
        except MetalSourceError as error:
            raise SyntaxError(str(error)) from None

    def __dir__(self) -> list[str]:
        return list(self._kernels)

    def __getattr__(self, name: str) -> ShaderKernel:
        found = self.__dict__.get("_kernels", {}).get(name)
        if found is None:
            raise AttributeError(f"the shader library has no function {name}")
        return found  # type: ignore[no-any-return]


class ShaderKernel:
    """One function of a shader library, with the arguments that torch takes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.max_threads_per_threadgroup = kernel.max_total_threads
        self.thread_execution_width = SIMD_WIDTH

    @property
    def static_thread_group_memory_length(self) -> int:
        return self._kernel.static_threadgroup_nbytes

    def __call__(self, *args: Any, threads: Any = None, group_size: Any = None, arg_casts: Any = None, error_buf_idx: int | None = None) -> None:
        bound = {i: _encoded(i, arg, _cast_of(arg_casts, i)) for i, arg in enumerate(args)}
        if error_buf_idx is not None:
            bound[error_buf_idx] = np.zeros(1024, np.uint8)
        sizes = _sizes(threads if threads is not None else next(a for a in args if hasattr(a, "numel")).numel())
        groups = _sizes(group_size) if group_size is not None else _default_groups(sizes, self.max_threads_per_threadgroup)
        if len(groups) != len(sizes):
            raise ValueError("Threads and group_size must have the same number of dimensions")
        if int(np.prod(groups)) > self.max_threads_per_threadgroup:
            raise ValueError(f"Threadgroup size exceeds {self.max_threads_per_threadgroup} limit")
        missing = [p.name for p in self._kernel.buffers if p.index not in bound]
        if missing:  # Metal would read what another kernel has left there
            raise RuntimeError(f"nothing is bound to {', '.join(missing)} of {self._kernel.name}")
        given = [bound[p.index] for p in self._kernel.buffers]
        _queue.append(functools.partial(_dispatch, self._kernel, given, sizes, groups, args))


def _dispatch(kernel: Kernel, given: Sequence[Any], sizes: tuple[int, ...], groups: tuple[int, ...], tensors: tuple[Any, ...]) -> None:
    """Run a shader; `tensors` are alive until then."""
    kernel(*given, grid_threads=sizes, threads=groups)


def _encoded(index: int, arg: Any, cast: str | None) -> Any:
    """What is bound at a buffer index: memory from a tensor's first element on, or bytes."""
    torch = sys.modules["torch"]
    if isinstance(arg, torch.Tensor):
        if arg.device.type != "mps":  # torch does not look, and binds nonsense
            raise RuntimeError(f"argument {index} is a tensor on {arg.device}, not on mps")
        return _memory(arg)[arg.storage_offset() * arg.element_size() :]
    numbers = list(arg) if isinstance(arg, list | tuple) else [arg]
    if not numbers or not all(isinstance(n, bool | int | float) for n in numbers):
        raise RuntimeError(f"Unsupported argument type {type(arg).__name__}")
    are_whole = all(isinstance(n, int) for n in numbers)
    dtype = CASTS[cast] if cast else np.int64 if are_whole else np.float32
    data = np.array(numbers, dtype).tobytes()
    if len(data) > MAX_BYTES:
        raise RuntimeError(f"argument {index} has {len(data)} bytes; setBytes takes {MAX_BYTES}")
    return data


def _cast_of(arg_casts: Any, index: int) -> str | None:
    found = arg_casts.get(index) if isinstance(arg_casts, dict) else arg_casts
    if found is not None and found not in CASTS:
        raise RuntimeError(f"Unsupported cast {found}")
    return found if found is None else str(found)


def _sizes(extent: Any) -> tuple[int, ...]:
    sizes = (extent,) if isinstance(extent, int) else tuple(extent)
    if not 1 <= len(sizes) <= 3:
        raise ValueError("Unexpected number of dimensions: a grid has up to 3")
    return sizes


def _default_groups(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    return (min(sizes[0], most),) if len(sizes) == 1 else (most, *(1 for _ in sizes[1:]))
