"""DLPack capsules in and out: NumPy owns their lifetime, this file the labels it lacks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base import dtypes
from eas.base.dtypes import DType, Kind
from eas.base.errors import ArgumentError
from eas.interop import dlpack_metal
from eas.interop.arg_view import IMMUTABLE, ArgView, is_of_mlx, is_torch_tensor
from eas.interop.capsules import MAX_VERSION, DLTensor, content_of, is_capsule
from eas.interop.devices import home_of
from eas.interop.private import PrivateView
from eas.interop.torch_views import torch_view

Array = NDArray[Any]

CPU = (1, 0)  # kDLCPU, device 0
# NumPy moves bits without asking what they mean. A bf16 array travels through its exporter and
# importer as uint16, and only the type code in the capsule says bf16: no callback of ours has to
# outlive the interpreter, and no capsule is consumed or released by hand.
_NUMPY_HAS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"

# --- types ----------------------------------------------------------------------------------------

_DEVICE_NAMES = {2: "CUDA", 3: "CUDA host", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}
_CODE_OF_KIND = {Kind.SIGNED: 0, Kind.UNSIGNED: 1, Kind.FLOAT: 2, Kind.BOOL: 6}
_CODE_OF_EXTENSION = {dtypes.bf16: 4, dtypes.f8e4m3: 10, dtypes.f8e5m2: 12}


def _code(dtype: DType) -> int:
    return _CODE_OF_EXTENSION.get(dtype, _CODE_OF_KIND[dtype.kind])


_BY_CODE = {(_code(d), d.bits): d for d in dtypes.ALL}


# --- out ----------------------------------------------------------------------------------------


def export(
    array: Array,
    dtype: DType,
    device: tuple[int, int] = CPU,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """A capsule that shares the memory of `array` and keeps it alive; versioned if asked for."""
    exporter: Any = array  # the stubs are narrower than the protocol
    asked = device if dl_device is None else tuple(dl_device)
    if asked not in (device, CPU):
        raise BufferError(f"the tensor lives on DLPack device {device}, not on {asked}")
    if device != CPU and asked == CPU:
        if copy is False:
            raise BufferError(f"memory of DLPack device {device} reaches the CPU as a copy only")
        copy = True
    if stream is not None:
        raise ArgumentError(f"__dlpack__ was asked for stream {stream!r}, but CPU memory belongs to no stream", hint="stream=None")
    if not copy and any(step < 0 and size > 1 for size, step in zip(array.shape, array.strides, strict=True)):
        # torch ends the process when it is given such a tensor.
        raise BufferError(f"consumers of DLPack cannot take negative strides (shape {array.shape}); share x.contiguous(), which is a copy")
    dl_device = CPU
    if _NUMPY_HAS_VERSIONS:
        capsule: object = exporter.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )
    else:
        capsule = (exporter.copy() if copy else exporter).__dlpack__(stream=stream)
    content = content_of(capsule)[0]
    if dtype in _CODE_OF_EXTENSION:
        content.code = _code(dtype)
    content.device_type, content.device_id = asked
    if asked[0] == dlpack_metal.METAL:
        dlpack_metal.relabel(content, array)
    return capsule


# --- in -----------------------------------------------------------------------------------------


def memory_of(source: Any) -> ArgView:
    """The memory of a DLPack producer or an unused capsule, on the CPU or a Metal device, without a copy."""
    is_bare = is_capsule(source)
    capsule = source if is_bare else _ask(source)
    content, readonly = content_of(capsule)
    _check_device(content.device_type, "the capsule")
    dtype = _BY_CODE.get((content.code, content.bits))
    if dtype is None or content.lanes != 1:
        raise ArgumentError(
            f"eas has no dtype for DLPack type code {content.code} with {content.bits} bits "
            f"and {content.lanes} lanes",
            hint="convert it to a bool, integer or float dtype before the exchange",
        )
    if _lacks_memory(content):
        raise ArgumentError(f"the DLPack tensor of shape {_shape(content)} has no memory", hint=NO_MEMORY_HINT)
    is_metal = content.device_type == dlpack_metal.METAL
    array, is_private = _adopt_metal(capsule, content, dtype) if is_metal else (_adopt(capsule, content, dtype), False)
    readonly |= type(source).__module__.partition(".")[0] in IMMUTABLE
    if array.flags.writeable == readonly:
        array = np.asarray(_Relabelled(array, readonly))
    device = "mps" if is_metal else "cpu"
    if is_private:
        return PrivateView("tensor", dtype, array, array if is_bare else source, home_of("mps", "private"), readonly=readonly)
    return ArgView("tensor", dtype, array, array if is_bare else source, readonly=readonly, device=device)


NO_MEMORY_HINT = "its storage was freed or resized: make a new tensor"


def _shape(content: DLTensor) -> tuple[int, ...]:
    return tuple(content.shape[axis] for axis in range(content.ndim))


def _lacks_memory(content: DLTensor) -> bool:
    return not content.data and all(_shape(content))


class WithMemory:
    """A DLPack producer whose capsules NumPy may take: for one without memory it would make some up."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._producer.__dlpack__(**options)
        content, _ = content_of(capsule)
        if _lacks_memory(content):
            raise NoMemory(_shape(content))
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._producer.__dlpack_device__()


class NoMemory(Exception):
    """A tensor of this shape has no memory."""


def _ask(producer: Any) -> object:
    """A capsule from `producer.__dlpack__`, refusing copies where the producer lets us."""
    kind = type(producer).__name__
    if not (hasattr(producer, "__dlpack__") and hasattr(producer, "__dlpack_device__")):
        raise ArgumentError(
            f"from_dlpack takes a DLPack capsule or an object with __dlpack__, got {kind}",
            hint="eas.tensor(x) takes NumPy arrays, torch tensors, lists and buffers",
        )
    try:
        if is_of_mlx(producer):
            sys.modules["mlx.core"].eval(producer)
        _check_device(int(producer.__dlpack_device__()[0]), f"the {kind}")
        if not _NUMPY_HAS_VERSIONS:
            return producer.__dlpack__()
        try:
            return producer.__dlpack__(max_version=MAX_VERSION, copy=False)
        except TypeError:  # the producer is older than DLPack 1.0
            return producer.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        if is_torch_tensor(producer):
            torch_view(producer, "x")  # says what is wrong with it, and what to do
        raise ArgumentError(f"the {kind} cannot share its memory: {error}", hint="eas.tensor(x) shares or copies what it can") from error


def _check_device(device_type: int, owner: str) -> None:
    if device_type == CPU[0]:
        return
    why = dlpack_metal.why_not_here() if device_type == dlpack_metal.METAL else "from_dlpack takes the CPU and Metal"
    if why is not None:
        name = _DEVICE_NAMES.get(device_type, f"DLPack device {device_type}")
        raise ArgumentError(f"{owner} lives on {name}, which cannot be shared as CPU memory can: {why}", hint="copy it to the CPU first")


def _adopt_metal(capsule: object, content: DLTensor, dtype: DType) -> tuple[Array, bool]:
    """The memory of a Metal capsule, and whether it is private; NumPy consumes that, for the end of its life, as one of nothing on the CPU."""
    keeper: list[Array] = []
    made, is_private = dlpack_metal.adopted(content, dtype, keeper)
    data, device_type, offset = content.data, content.device_type, content.byte_offset
    content.data, content.device_type, content.byte_offset = made.ctypes.data, CPU[0], 0
    keeper.append(_adopt(capsule, content, dtype))
    content.data, content.device_type, content.byte_offset = data, device_type, offset
    return made, is_private


def _adopt(capsule: object, content: DLTensor, dtype: DType) -> Array:
    """Let NumPy consume the capsule under the name of the storage type."""
    foreign_code = content.code
    content.code = _code(dtypes.from_numpy(dtype.np_storage))
    try:
        return np.from_dlpack(_Producer(capsule))
    except (BufferError, RuntimeError, ValueError) as error:
        content.code = foreign_code  # the capsule is still unused, and the caller's
        raise ArgumentError(f"NumPy cannot share the DLPack tensor: {error}") from error


class _Producer:
    """A bare capsule, dressed as the object that `np.from_dlpack` wants."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return CPU


class _Relabelled:
    """The memory of an array, as writable or read-only as its producer says.

    NumPy takes every legacy capsule for read-only, but those cannot carry read-only memory.
    """

    def __init__(self, array: Array, readonly: bool) -> None:
        self.array = array
        self.readonly = readonly

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self.array.__array_interface__
        return {**interface, "data": (interface["data"][0], self.readonly)}
