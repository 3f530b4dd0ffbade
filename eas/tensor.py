"""`eas.Tensor`: typed memory on a device, and the functions that make one or share one."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError, TypeMismatch
from eas.interop import dlpack
from eas.interop import torch as torch_bridge
from eas.interop.arg_view import TENSOR_CLASSES, ArgView, is_torch_tensor
from eas.interop.arguments import view
from eas.interop.devices import CPU, Device, device_of, empty_cache, home_of, memory_stats
from eas.interop.memory import allocate, converted, of_numbers, of_weak, readable, stored
from eas.interop.pool import MemoryStats, release_memory
from eas.interop.private import PrivateView
from eas.interop.targets import DTypeLike, UnknownDevice, as_dtype, names_dtype
from eas.lazy import advanced, build, functions
from eas.lazy.advanced import is_array
from eas.lazy.build import OutOfBounds, refuse
from eas.lazy.handle import LazyTensor
from eas.lazy.indexing import assign, index_part
from eas.lazy.view import contiguous, is_contiguous
from eas.lazy.writing import written_lazily
from eas.runtime.copies import told
from eas.tools.notebook import tensor_html

__all__ = [
    "MemoryStats", "Tensor", "UnknownDevice", "arange", "empty", "empty_cache", "empty_like", "from_dlpack",
    "from_numpy", "from_torch", "full", "memory_stats", "ones", "ones_like", "rand", "randn",
    "release_memory", "tensor", "to_dlpack", "to_torch", "zeros", "zeros_like",
]  # fmt: skip

_RESHAPES_IN_PLACE = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
Array = NDArray[Any]
Number = bool | int | float
Shape = int | tuple[int, ...] | list[int]


class Tensor(LazyTensor):
    """An n-dimensional array of one dtype on one device; arithmetic on it is lazy.

    Slices, transposes and `.numpy()` share its memory. Strides count elements.
    """

    __slots__ = ("__weakref__",)
    __array_priority__ = 1000  # NumPy arrays on the left defer to our reflected operators

    def __init__(self, data: object, dtype: DTypeLike = None, device: object = None) -> None:
        if type(data) is np.ndarray and isinstance(dtype, DType) and data.dtype == dtype.np_storage and device is None:
            self._set(data, dtype, None, CPU)  # storage form: uint16 for bf16, uint8 for fp8
            return
        made = tensor(data, device, dtype)
        self._set(made._stored, made.dtype, made._owner, made._device)

    def _set(self, array: Array, dtype: DType, owner: object, device: Device) -> None:
        assert array.dtype == dtype.np_storage, f"{array.dtype} is not how {dtype} is stored"
        self._memory = array  # private: without elements
        self._owner = array if owner is None else owner  # a torch tensor hears of writes
        self._device = device
        self.dtype = dtype
        self._node = self._base = self._layout = self._origin = None

    @classmethod
    def _made(cls, array: Array, dtype: DType, owner: object = None, device: Device = CPU) -> Tensor:
        """A tensor on memory in storage form."""
        self = cls.__new__(cls)
        self._set(array, dtype, owner, device)
        return self

    def _wrapped(self, value: object, dtype: DTypeLike = None) -> Tensor:
        return tensor(value, dtype=dtype).to(device=self._device.name)

    # --- what it is ---

    @property
    def _array(self) -> Array:
        """Its memory, where the CPU sees it."""
        if self._device.storage == "private":
            raise ArgumentError("the memory of this tensor is private to the GPU, and has no address for the CPU", hint='x.to("cpu") copies it')
        return self._stored

    @property
    def device(self) -> str:
        """Where its memory lives: `"cpu"`, or `"mps"`."""
        return self._device.name

    @property
    def storage(self) -> str:
        """`"shared"`: the CPU sees its memory; `"private"`: only the GPU does."""
        return self._device.storage

    @property
    def shape(self) -> tuple[int, ...]:
        memory = self._memory
        return self._node.shape if memory is None else memory.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in elements, as in torch; NumPy counts bytes."""
        if self._is_lazy:
            return (self._layout or contiguous(self.shape)).strides
        return tuple(step // self.dtype.nbytes for step in self._stored.strides)

    def stride(self, axis: int | None = None) -> Any:
        """The step of one axis in elements, or of all."""
        return self.strides if axis is None else self.strides[axis]

    @property
    def size(self) -> int:
        """Number of elements, as in NumPy."""
        return math.prod(self.shape)

    def numel(self) -> int:
        """Number of elements, as in torch."""
        return self.size

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.nbytes

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie in C order without gaps."""
        if self._is_lazy:
            return self._layout is None or is_contiguous(self._layout)
        return self._stored.flags.c_contiguous

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        values = np.array2string(self._values(), separator=", ", prefix="tensor(")
        storage = ", storage='private'" if self.storage == "private" else ""
        return f"tensor({values}, shape={self.shape}, dtype={self.dtype}, device={self.device!r}{storage})"

    def _repr_html_(self) -> str:
        return tensor_html(self)

    # --- views ---

    def _alias(self, array: Array) -> Tensor:
        return Tensor._made(array, self.dtype, self._owner, self._device)

    def _copied(self, device: Device | None = None) -> Tensor:
        """A contiguous copy."""
        home = self._device if device is None else device
        if home.host is not None and self._device in (home, home.host):
            made = told(home.name, self.device, self.nbytes, lambda: home.cloned(self._stored))
            return Tensor._made(made, self.dtype, device=home)
        return Tensor._made(stored(self._device.seen(self._stored), self.dtype, home, self.device), self.dtype, device=home)

    def __getitem__(self, index: object) -> Tensor:
        """A view, or a copy of what arrays of integers and masks name; a 0-d tensor if every axis has an integer."""
        parts = index if isinstance(index, tuple) else (index,)
        checked = tuple([part if is_array(part) else index_part(part) for part in parts])
        if any(map(is_array, checked)):
            return self._of(advanced.read(self, checked))
        if self._is_lazy:
            return self._view_of(functions.indexed(self._lazy(), checked))
        try:  # the Ellipsis makes NumPy return a 0-d view, not a scalar
            return self._alias(self._stored[checked if ... in checked else (*checked, ...)])
        except IndexError as error:
            raise refuse(OutOfBounds(f"{error}: the tensor has shape {list(self.shape)}", hint="indices go from -size to size - 1")) from None

    def __setitem__(self, index: object, value: object) -> None:
        """Overwrite elements that an index of NumPy's kind names, or a mask; views of them see it."""
        if not written_lazily(self, index, value):
            assign(self, index, value)
            self.__eas_view__().note_write()

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def reshape(self, *shape: Any) -> Tensor:
        """The elements in another shape: a view where strides allow it, else a copy."""
        if self._is_lazy:
            return self._view_of(build.reshape(self._lazy(), _shape(shape)))
        try:  # of as many elements that need no memory: a reshape of private memory may not copy
            wanted = np.broadcast_to(np.zeros((), np.bool_), (self.size,)).reshape(_shape(shape)).shape
        except ValueError as error:
            raise refuse(ArgumentError(str(error), hint=f"this tensor has shape {self.shape}, {self.size} elements")) from None
        array = _viewed(self._stored, wanted)
        return self._copied().reshape(wanted) if array is None else self._alias(array)

    def view(self, *shape: Any) -> Tensor:
        """A view in another shape; refused where only a copy has it."""
        made = self.reshape(*shape)
        if self._is_lazy and made._base is not None:
            return made
        if self._is_lazy or (made.size and not np.may_share_memory(made._stored, self._stored)):
            raise refuse(ArgumentError(
                f"no view of a tensor with shape {self.shape} and strides {self.strides} has shape {made.shape}",
                hint="x.reshape(...) copies where it must",
            ))
        return made

    def flatten(self) -> Tensor:
        """All elements along one axis: a view where strides allow it, else a copy."""
        return self.reshape(-1)

    def permute(self, *axes: Any) -> Tensor:
        """A view with the axes in that order."""
        order = _shape(axes)
        if self._is_lazy:
            return self._view_of(build.permute(self._lazy(), order))
        try:
            return self._alias(self._stored.transpose(order))
        except ValueError:
            return self._moved(build.permute(self._lazy(), order))  # which says what is wrong

    def transpose(self, *axes: Any) -> Tensor:
        """A view with two axes swapped, as in torch; with the axes in that order, or in reverse order, as in NumPy."""
        if not axes:
            return self.T
        if len(axes) != 2:
            return self.permute(*axes)
        node, order = self._lazy(), list(range(self.ndim))
        first, second = (build.axis_of(node, axis) for axis in axes)
        order[first], order[second] = second, first
        return self._moved(build.permute(node, order))

    @property
    def T(self) -> Tensor:
        """A view with the axes in reverse order."""
        return self.permute(*range(self.ndim - 1, -1, -1))

    # --- copies ---

    def clone(self) -> Tensor:
        """A contiguous copy."""
        return self._copied() if self._is_realised else self._of(build.copied(self._lazy()))

    def contiguous(self) -> Tensor:
        """The tensor itself if it is contiguous, else a contiguous copy."""
        return self if self.is_contiguous else self.clone()

    def to(self, *targets: Any, device: Any = None, dtype: DTypeLike = None, storage: str | None = None) -> Tensor:
        """The tensor on that device, in that dtype and storage mode (`"shared"`, `"private"`); itself where nothing changes."""
        for target in targets:
            if names_dtype(target):
                dtype = target
            else:
                device = target
        stays = device is None or device_of(device).name == self.device
        home = self._device if stays and storage is None else home_of(self.device if device is None else device, storage)
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        if wanted is self.dtype:
            return self if home is self._device else self._copied(home)
        if self._memory is None and home is self._device:
            return self._of(build.cast(self._lazy(), wanted))
        return Tensor._made(converted(self._values(), self.dtype, wanted, home, self.device), wanted, device=home)

    def cpu(self) -> Tensor:
        """The tensor on the CPU; itself if it lives there."""
        return self.to(device="cpu")

    def copy_(self, source: object) -> Tensor:
        """Overwrite the elements with those of `source`, broadcast and cast; returns the tensor."""
        if not self._stored.flags.writeable:
            raise ArgumentError(
                "copy_ cannot write a read-only tensor", hint="write to x.clone() instead"
            )
        given = tensor(source, dtype=self.dtype)
        try:
            self._fill_from(given)
        except ValueError:
            raise ArgumentError(f"copy_ cannot fill shape {self.shape} from shape {given.shape}", hint="pass a source that broadcasts to it") from None
        self.__eas_view__().note_write()
        return self

    def _fill_from(self, given: Tensor) -> None:
        home = self._device
        self._keep_for_readers()
        if home.copy is not None and given._device in (home, home.host) and not np.may_share_memory(self._stored, given._stored):
            home.copy(self._stored, given._stored)
            return
        values = given._device.seen(given._stored)
        if home.copy is None:
            home.synchronize()
        home.fill(self._stored, values)

    # --- Python values ---

    def _values(self) -> Array:
        """The elements as NumPy can compute with them: float32 for bf16 and fp8. May alias."""
        return numerics.decode(self._device.seen(self._stored), self.dtype)

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ArgumentError(
                f"item() needs a tensor of one element, this one has {self.size}",
                hint="x.tolist()",
            )
        return self._values().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._values().tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    # --- other libraries ---

    def numpy(self) -> Array:
        """A NumPy array on the same memory, which holds what launched kernels have written; of private memory a read-only copy."""
        if self.dtype.np_storage != self.dtype.np_compute:
            raise TypeMismatch(f"NumPy has no {self.dtype} arrays", hint='x.to("f32").numpy()')
        self._keep_for_readers()  # who has the array may write it
        return self._device.seen(self._stored).view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False and self.storage == "private":
            raise ValueError("the memory of this tensor is private to the GPU: NumPy gets a copy")
        if dtype is None or self.dtype.np_storage == self.dtype.np_compute:
            return np.array(self.numpy(), dtype=dtype, copy=copy)
        if copy is False:
            raise ValueError(f"NumPy cannot share the memory of a {self.dtype} tensor")
        return self._values().astype(dtype)

    def to_torch(self, device: object = None) -> Any:
        """A torch CPU tensor on the same memory, or a copy where torch cannot share it.

        Copied are tensors that are read-only or have negative strides, private ones, and those for which
        `device` names another device.
        """
        self._keep_for_readers()
        self._device.synchronize()
        wanted = torch_bridge.checked_device(device)
        if wanted is not None and wanted.type == "mps" and self.device == "mps" and self._stored.flags.writeable:
            return torch_bridge.from_dlpack(self)
        return torch_bridge.to_torch(self._device.seen(self._stored), self.dtype, wanted)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._keep_for_readers()
        self._device.synchronize()  # DLPack has no streams for these devices
        if self.storage == "private" and (copy or CPU.dlpack_device in (self._device.dlpack_device, dl_device and tuple(dl_device))):
            return self._unshared(copy, dl_device).__dlpack__(stream=stream, max_version=max_version)
        return dlpack.export(
            self._stored, self.dtype, self._device.dlpack_device,
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy,
        )  # fmt: skip

    def _unshared(self, copy: bool | None, dl_device: tuple[int, int] | None) -> Tensor:
        """A copy for a consumer that asks for one, or that private memory cannot be shared with."""
        if copy is False:
            raise BufferError("memory that is private to the GPU reaches the CPU as a copy only")
        asked = self._device.dlpack_device if dl_device is None else tuple(dl_device)
        return self.cpu() if asked == CPU.dlpack_device else self.clone()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.dlpack_device

    def __eas_view__(self) -> ArgView:
        memory = self._stored
        if self.storage == "private":
            return PrivateView("tensor", self.dtype, memory, self._owner, self._device, readonly=not memory.flags.writeable)
        return ArgView("tensor", self.dtype, memory, self._owner, readonly=not memory.flags.writeable, device=self.device)

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpickled, (np.ascontiguousarray(self._device.seen(self._stored)), self.dtype, self.device, self.storage))


# --- shapes and memory --------------------------------------------------------------------------


TENSOR_CLASSES.append(Tensor)


def _shape(shape: Any) -> tuple[int, ...]:
    """The tuple meant by `3`, `(2, 3)`, `(3,)` from `*shape`, or `((2, 3),)`."""
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    try:
        return tuple(map(operator.index, sizes))
    except TypeError:
        raise ArgumentError(f"a shape is made of integers, got {tuple(sizes)!r}", hint="use // where a size is a quotient") from None


def _viewed(array: Array, shape: tuple[int, ...]) -> Array | None:
    """The same memory in another shape with as many elements, or None where only a copy has it."""
    try:
        if _RESHAPES_IN_PLACE:
            return np.reshape(array, shape, copy=False)
        made = array.view()
        made.shape = shape
        return made
    except (ValueError, AttributeError):
        return None


def _unpickled(values: Array, dtype: DType, device: str = "cpu", storage: str | None = None) -> Tensor:
    """A new tensor with a copy of an array in storage form."""
    home = home_of(device, storage)
    return Tensor._made(stored(values, dtype, home), dtype, device=home)


def _shared(seen: ArgView) -> Tensor:
    """A tensor on the memory of a foreign array."""
    array = seen.array.view()  # whoever reshapes the original in place does not reshape ours
    if seen.readonly:
        array.flags.writeable = False
    return Tensor._made(array, seen.dtype, seen.owner, home_of(seen.device, "private" if seen.is_private else None))


# --- making tensors -----------------------------------------------------------------------------


def tensor(data: object, device: object = None, dtype: DTypeLike = None, storage: str | None = None) -> Tensor:
    """A tensor of `data`.

    NumPy arrays, torch tensors, DLPack producers, buffers and other tensors share their memory
    unless `dtype` or `device` asks for a copy; what cannot be shared (a foreign byte order, an
    object that gives NumPy copies only, a torch tensor on another device) is copied. Python numbers
    and lists are copied, as bool, i32 (i64 or u64 where the values need it) and f32 unless `dtype`
    says otherwise. The device is that of the data unless it is given; numbers live on the CPU. `storage="private"`
    is memory of `device="mps"` that only the GPU sees.
    """
    if device is not None:
        home_of(device, storage)  # refused before anything is copied
    if isinstance(data, bool | int | float | np.generic | list | tuple | range):
        made = Tensor._made(*of_numbers(data, dtype))
    elif isinstance(data, str) or data is None:
        raise ArgumentError(f"eas.tensor takes numbers, lists, arrays and tensors, got {data!r}", hint="eas.tensor([1.0, 2.0])")
    elif isinstance(data, Tensor):
        made = data
    elif is_torch_tensor(data):
        made = _shared(torch_bridge.memory_of(torch_bridge.within_reach(data)))
    elif hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        made = from_dlpack(data)
    else:
        made = _shared(view(readable(data), "data"))
    return made.to(device=device, dtype=dtype, storage=storage)


def empty(*shape: Any, device: object = "cpu", dtype: DTypeLike = dtypes.f32, storage: str | None = None) -> Tensor:
    """A tensor with arbitrary contents; `storage="private"` of `device="mps"` is memory that only the GPU sees."""
    return new(_shape(shape), as_dtype(dtype), home_of(device, storage))


def new(shape: tuple[int, ...], dtype: DType, device: Device) -> Tensor:
    """`empty` for those who know all three: a small launch takes as long as finding out."""
    return Tensor._made(allocate(shape, dtype, device), dtype, None, device)


def zeros(*shape: Any, device: object = "cpu", dtype: DTypeLike = dtypes.f32, storage: str | None = None) -> Tensor:
    """A tensor of zeros."""
    return full(_shape(shape), 0, device=device, dtype=dtype, storage=storage)


def ones(*shape: Any, device: object = "cpu", dtype: DTypeLike = dtypes.f32, storage: str | None = None) -> Tensor:
    """A tensor of ones."""
    return full(_shape(shape), 1, device=device, dtype=dtype, storage=storage)


def full(shape: Shape, value: Number, *, device: object = "cpu", dtype: DTypeLike = None, storage: str | None = None) -> Tensor:
    """A tensor whose elements are all `value`."""
    one = tensor(value, dtype=dtype)
    made = empty(_shape(shape), device=device, dtype=one.dtype, storage=storage)
    made._device.fill(made._stored, one._stored)
    return made


def empty_like(x: object, *, device: object = None, dtype: DTypeLike = None, storage: str | None = None) -> Tensor:
    """A contiguous tensor of the shape, dtype, device and storage of `x`, with arbitrary contents."""
    like = tensor(x)
    wanted = like.dtype if dtype is None else dtype
    if device is None:
        device, storage = like.device, like.storage if storage is None else storage
    return empty(like.shape, device=device, dtype=wanted, storage=storage)


def zeros_like(x: object, *, device: object = None, dtype: DTypeLike = None) -> Tensor:
    """Zeros in the shape, dtype and device of `x`."""
    return empty_like(x, device=device, dtype=dtype).copy_(0)


def ones_like(x: object, *, device: object = None, dtype: DTypeLike = None) -> Tensor:
    """Ones in the shape, dtype and device of `x`."""
    return empty_like(x, device=device, dtype=dtype).copy_(1)


def arange(
    start: int | float,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    device: object = "cpu",
    dtype: DTypeLike = None,
) -> Tensor:
    """The numbers from `start` (0 if it stands alone) up to, not including, `stop`."""
    values = np.arange(0, start, step) if stop is None else np.arange(start, stop, step)
    return Tensor._made(*of_weak(values, dtype)).to(device=device)


def rand(*shape: Any, seed: int | None = None, device: object = "cpu", dtype: DTypeLike = dtypes.f32) -> Tensor:
    """Uniform random numbers in [0, 1); the same ones for the same seed and shape."""
    return _random(np.random.default_rng(seed).random, shape, device, dtype)


def randn(*shape: Any, seed: int | None = None, device: object = "cpu", dtype: DTypeLike = dtypes.f32) -> Tensor:
    """Random numbers of the standard normal distribution; the same ones for the same seed and shape."""
    return _random(np.random.default_rng(seed).standard_normal, shape, device, dtype)


def _random(draw: Any, shape: Any, device: object, dtype: DTypeLike) -> Tensor:
    wanted, home = as_dtype(dtype), device_of(device)
    if not wanted.is_float:
        raise TypeMismatch(f"random numbers are floats, got dtype {wanted}", hint='dtype="f32"')
    drawn = dtypes.f64 if wanted is dtypes.f64 else dtypes.f32
    values = draw(_shape(shape), dtype=drawn.np_compute)
    # Rounding to a narrow format must not reach 1.
    if draw.__name__ == "random" and wanted.bits < 32:
        values = np.minimum(values, np.float32(1 - 2.0 ** -(wanted.mantissa_bits + 1)))
    return Tensor._made(converted(np.asarray(values), drawn, wanted, home), wanted, device=home)


# --- sharing ------------------------------------------------------------------------------------


def from_numpy(array: Array) -> Tensor:
    """A tensor on the memory of a NumPy array."""
    if not isinstance(array, np.ndarray):
        raise ArgumentError(
            f"from_numpy takes a NumPy array, got {type(array).__name__}", hint="eas.tensor(x)"
        )
    return _shared(view(array, "array"))


def from_torch(x: object) -> Tensor:
    """A tensor on the memory of a torch CPU tensor, detached.

    It is read-only if `x` requires grad while grad mode is on: autograd would miss writes.
    """
    return _shared(torch_bridge.memory_of(x))


def to_torch(x: Tensor, device: object = None) -> Any:
    """A torch tensor on the memory of `x`, or a copy where torch cannot share it."""
    return x.to_torch(device)


def from_dlpack(x: object) -> Tensor:
    """A tensor on the memory of a DLPack producer, or of a capsule that nobody has used: of the CPU or a Metal device."""
    return _shared(dlpack.memory_of(x))


def to_dlpack(x: Tensor) -> object:
    """A legacy DLPack capsule on the memory of `x`, as torch.utils.dlpack.from_dlpack takes it."""
    if not x._stored.flags.writeable:
        raise ArgumentError(
            "to_dlpack cannot share a read-only tensor: legacy capsules have no such flag",
            hint="eas.to_dlpack(x.clone())",
        )
    return x.__dlpack__()
