"""The devices on which a tensor can live; a runtime with memory of its own adds one row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base.errors import ArgumentError, BackendUnavailable
from eas.base.loading import load
from eas.interop.dlpack_metal import METAL
from eas.interop.pool import POOL, MemoryStats
from eas.interop.targets import UnknownDevice
from eas.runtime import get_runtime, require

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Device:
    """Memory that kernels of one kind can use, and that the CPU can see unless its storage is private.

    Shared Metal buffers and those of the software Metal are host memory, so a tensor is a NumPy
    array on every device. The base of that array is the runtime's buffer object. Of private memory the array is a layout:
    shape, strides and an address that kernels know, but no elements.
    """

    name: str
    dlpack_type: int
    """kDLCPU is 1, kDLMetal 8."""
    allocate: Callable[[int], Array]
    """New memory, at least so many bytes."""
    stats: Callable[[], MemoryStats]
    release: Callable[[], int]
    """Give memory that no tensor uses back to the system; the number of bytes that were."""
    synchronize: Callable[[], None] = lambda: None
    """Afterwards the CPU sees what launched kernels have written."""
    host: Device | None = None
    """Of private memory: the shared memory of the same device, through which the CPU reads and writes it."""
    copy: Callable[[Array, Array], None] | None = None
    """Of private memory: `copy(target, source)` on the device, of layouts that do not overlap; the source broadcasts."""

    @property
    def storage(self) -> str:
        """`"private"`: only the GPU sees the memory; else `"shared"`."""
        return "shared" if self.copy is None else "private"

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """New memory for elements of that dtype, without gaps."""
        return np.ndarray(shape, dtype, self.allocate(math.prod(shape) * dtype.itemsize))

    def seen(self, array: Array) -> Array:
        """The elements as the CPU sees them when launches on them have ended: the memory itself, or a read-only copy of private memory."""
        if self.host is None or self.copy is None:
            self.synchronize()
            return array
        made = self.host.new_array(array.shape, array.dtype)
        self.copy(made, array)
        made.flags.writeable = False  # what is written to a copy would be lost
        return made

    def fill(self, target: Array, values: Array) -> None:
        """Overwrite the elements, which no launch uses unless they are private, with those of an array of the CPU, broadcast."""
        if self.host is None or self.copy is None:
            target[...] = values
            return
        np.broadcast_to(values, target.shape)  # refused before anything is copied
        staged = self.host.new_array(values.shape, target.dtype)
        staged[...] = values
        self.copy(target, staged)

    def cloned(self, array: Array) -> Array:
        """Private memory with the same elements, without gaps."""
        assert self.copy is not None
        made = self.new_array(array.shape, array.dtype)
        self.copy(made, array)
        return made

    @property
    def dlpack_device(self) -> tuple[int, int]:
        return (self.dlpack_type, 0)


CPU = Device("cpu", 1, POOL.lease, POOL.stats, POOL.release)
_ALIASES = {"metal": "mps"}
_devices = {"cpu": CPU}
_private: dict[int, Device] = {}  # by the shared one
_simulated: dict[str, Device] = {}
STORAGES = ("shared", "private")


def add_device(device: Device) -> None:
    """Tensors may live on `device` from now on."""
    _devices[device.name] = device


def home_of(device: object, storage: str | None = None) -> Device:
    """Where tensors live that are asked for by device and storage mode (None: shared)."""
    if storage not in (None, *STORAGES):
        raise ArgumentError(f"storage is {storage!r}, not one of {', '.join(STORAGES)}", hint='storage="private" is memory that only the GPU sees')
    found = device_of(device)
    if storage != "private":
        return found
    if id(found) not in _private:
        raise ArgumentError(f"device {found.name!r} has no private storage", hint='device="mps", storage="private"')
    return _private[id(found)]


def device_of(device: object) -> Device:
    """The device that a name such as `"cpu"`, `"mps:0"`, a torch device or itself stands for; of a name, with shared storage."""
    if type(device) is Device:
        return device
    name, _, index = str(device).partition(":")
    name = _ALIASES.get(name, name)
    found = _devices.get(name)
    if found is not None and index in ("", "0"):
        return found
    if name == "mps" and index in ("", "0"):
        return _metal_device()
    raise UnknownDevice(f"there is no device named {str(device)!r}", hint='device="cpu"')


def devices_of(runtime: str) -> tuple[Device, ...]:
    """Where tensors may live that a backend runs on as they are."""
    if runtime not in ("cpu", "mps"):
        return ()
    shared = device_of(runtime)
    return (shared, _private[id(shared)]) if id(shared) in _private else (shared,)


def memory_stats(device: object = "cpu") -> MemoryStats:
    """How much memory of a device the tensors of this process use, and how much its pool keeps for later."""
    return device_of(device).stats()


def empty_cache() -> int:
    """Give memory that no tensor uses back, on all devices; the number of bytes that were."""
    return sum(device.release() for device in list(_devices.values()))


def _metal() -> Device:
    """The GPU: shared buffers, which the CPU sees as memory of its own."""
    load("eas.runtime.metal")
    from eas.runtime.metal import MetalRuntime

    runtime = require(get_runtime("mps"))
    assert isinstance(runtime, MetalRuntime)
    memory = runtime.memory

    def stats() -> MemoryStats:
        return MemoryStats(*memory.counts())

    shared = Device("mps", METAL, runtime.allocate, stats, memory.release, runtime.synchronize)
    _private[id(shared)] = Device(
        "mps", METAL, lambda nbytes: runtime.allocate(nbytes, True), stats, memory.release, runtime.synchronize, shared, runtime.copy_elements
    )
    add_device(shared)
    return shared


def _metal_device() -> Device:
    """The Metal device: the GPU, or host memory under `EAS_BACKEND=sim`."""
    runtime = get_runtime()
    if runtime.name == "mps" or (runtime.name != "sim" and get_runtime("mps").is_available()):
        return _metal()
    if runtime.name != "sim":
        raise BackendUnavailable(
            f"there is no Metal device on the {runtime.name} backend",
            hint='device="cpu", or EAS_BACKEND=sim for the software Metal',
        )
    require(runtime)
    made = _simulated.get(runtime.name)
    if made is None:
        made = _simulated[runtime.name] = Device("mps", CPU.dlpack_type, POOL.lease, POOL.stats, POOL.release, runtime.synchronize)
        _private[id(made)] = Device("mps", CPU.dlpack_type, POOL.lease, POOL.stats, POOL.release, runtime.synchronize, made, np.copyto)
    return made
