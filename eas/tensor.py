"""`eas.Tensor`: typed memory on a device, and the functions that make one or share one."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas import dtypes, numerics
from eas.dtypes import DType
from eas.errors import ArgumentError, TypeMismatch
from eas.interop import dlpack
from eas.interop import torch as torch_bridge
from eas.interop.arguments import ArgView, view
from eas.interop.devices import CPU, Device, UnknownDevice, device_of, empty_cache, memory_stats
from eas.interop.memory import allocate, converted, of_numbers, of_weak, readable, stored
from eas.interop.pool import MemoryStats, release_memory
from eas.interop.targets import DTypeLike, as_dtype, names_dtype

__all__ = [
    "MemoryStats", "Tensor", "UnknownDevice", "arange", "empty", "empty_cache", "empty_like", "from_dlpack",
    "from_numpy", "from_torch", "full", "memory_stats", "ones", "ones_like", "rand", "randn",
    "release_memory", "tensor", "to_dlpack", "to_torch", "zeros", "zeros_like",
]  # fmt: skip

Array = NDArray[Any]
Number = bool | int | float
Shape = int | tuple[int, ...] | list[int]


class Tensor:
    """An n-dimensional array of one dtype on one device; make one with `eas.tensor` or `eas.empty`.

    Slices, transposes and `.numpy()` share its memory. Strides count elements.
    """

    __slots__ = ("__weakref__", "_array", "_device", "_owner", "dtype")

    def __init__(
        self, array: Array, dtype: DType, owner: object = None, device: Device = CPU
    ) -> None:
        assert array.dtype == dtype.np_storage, f"{array.dtype} is not how {dtype} is stored"
        self._array = array  # in storage form: uint16 for bf16, uint8 for fp8
        self._owner = array if owner is None else owner  # a torch tensor hears of writes
        self._device = device
        self.dtype = dtype

    # --- what it is ---

    @property
    def device(self) -> str:
        """Where its memory lives: `"cpu"`, or `"mps"`."""
        return self._device.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in elements, as in torch; NumPy counts bytes."""
        return tuple(step // self.dtype.nbytes for step in self._array.strides)

    def stride(self, axis: int | None = None) -> Any:
        """The step of one axis in elements, or of all."""
        return self.strides if axis is None else self.strides[axis]

    @property
    def size(self) -> int:
        """Number of elements, as in NumPy."""
        return self._array.size

    def numel(self) -> int:
        """Number of elements, as in torch."""
        return self._array.size

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie in C order without gaps."""
        return self._array.flags.c_contiguous

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        self._device.synchronize()
        values = np.array2string(self._values(), separator=", ", prefix="tensor(")
        return f"tensor({values}, shape={self.shape}, dtype={self.dtype}, device={self.device!r})"

    # --- views ---

    def _alias(self, array: Array) -> Tensor:
        return Tensor(array, self.dtype, self._owner, self._device)

    def _copied(self, device: Device | None = None) -> Tensor:
        """A contiguous copy."""
        self._device.synchronize()
        home = self._device if device is None else device
        return Tensor(stored(self._array, self.dtype, home), self.dtype, device=home)

    def __getitem__(self, index: object) -> Tensor:
        """A view; a 0-d tensor if every axis has an integer."""
        parts = index if isinstance(index, tuple) else (index,)
        checked = tuple(_index_part(part) for part in parts)
        # The Ellipsis makes NumPy return a 0-d view, not a scalar.
        return self._alias(self._array[checked if ... in checked else (*checked, ...)])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def reshape(self, *shape: Any) -> Tensor:
        """The elements in another shape: a view where strides allow it, else a copy."""
        try:
            array = self._array.reshape(_shape(shape))
        except ValueError as error:
            raise ArgumentError(str(error), hint=f"this tensor has shape {self.shape}, {self.size} elements") from None
        is_copy = array.size > 0 and not np.may_share_memory(array, self._array)
        return self._copied().reshape(array.shape) if is_copy else self._alias(array)

    def view(self, *shape: Any) -> Tensor:
        """A view in another shape; refused where only a copy has it."""
        made = self.reshape(*shape)
        if made.size and not np.may_share_memory(made._array, self._array):
            raise ArgumentError(
                f"no view of a tensor with shape {self.shape} and strides {self.strides} has shape {made.shape}",
                hint="x.reshape(...) copies where it must",
            )
        return made

    def flatten(self) -> Tensor:
        """All elements along one axis: a view where strides allow it, else a copy."""
        return self.reshape(-1)

    def permute(self, *axes: Any) -> Tensor:
        """A view with the axes in that order."""
        return self._alias(self._array.transpose(_shape(axes)))

    def transpose(self, first: int, second: int) -> Tensor:
        """A view with two axes swapped, as in torch."""
        return self._alias(self._array.swapaxes(first, second))

    @property
    def T(self) -> Tensor:
        """A view with the axes in reverse order."""
        return self._alias(self._array.T)

    # --- copies ---

    def clone(self) -> Tensor:
        """A contiguous copy."""
        return self._copied()

    def contiguous(self) -> Tensor:
        """The tensor itself if it is contiguous, else a contiguous copy."""
        return self if self.is_contiguous else self.clone()

    def to(self, *targets: Any, device: Any = None, dtype: DTypeLike = None) -> Tensor:
        """The tensor on that device and in that dtype; itself where nothing changes."""
        for target in targets:
            if names_dtype(target):
                dtype = target
            else:
                device = target
        home = self._device if device is None else device_of(device)
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        if wanted is self.dtype:
            return self if home is self._device else self._copied(home)
        return Tensor(converted(self._values(), self.dtype, wanted, home), wanted, device=home)

    def cpu(self) -> Tensor:
        """The tensor on the CPU; itself if it lives there."""
        return self.to(device="cpu")

    def copy_(self, source: object) -> Tensor:
        """Overwrite the elements with those of `source`, broadcast and cast; returns the tensor."""
        if not self._array.flags.writeable:
            raise ArgumentError(
                "copy_ cannot write a read-only tensor", hint="write to x.clone() instead"
            )
        given = tensor(source, dtype=self.dtype)
        given._device.synchronize()
        self._device.synchronize()
        try:
            self._array[...] = given._array
        except ValueError:
            raise ArgumentError(f"copy_ cannot fill shape {self.shape} from shape {given.shape}", hint="pass a source that broadcasts to it") from None
        self.__eas_view__().note_write()
        return self

    # --- Python values ---

    def _values(self) -> Array:
        """The elements as NumPy can compute with them: float32 for bf16 and fp8. May alias."""
        self._device.synchronize()
        return numerics.decode(self._array, self.dtype)

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
        """A NumPy array on the same memory, which holds what launched kernels have written."""
        if self.dtype.np_storage != self.dtype.np_compute:
            raise TypeMismatch(f"NumPy has no {self.dtype} arrays", hint='x.to("f32").numpy()')
        self._device.synchronize()
        return self._array.view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if dtype is None or self.dtype.np_storage == self.dtype.np_compute:
            return np.array(self.numpy(), dtype=dtype, copy=copy)
        if copy is False:
            raise ValueError(f"NumPy cannot share the memory of a {self.dtype} tensor")
        return self._values().astype(dtype)

    def to_torch(self, device: object = None) -> Any:
        """A torch CPU tensor on the same memory, or a copy where torch cannot share it.

        Copied are tensors that are read-only or have negative strides, and those for which
        `device` names another device.
        """
        self._device.synchronize()
        wanted = torch_bridge.checked_device(device)
        if wanted is not None and wanted.type == "mps" and self.device == "mps" and self._array.flags.writeable:
            return torch_bridge.from_dlpack(self)
        return torch_bridge.to_torch(self._array, self.dtype, wanted)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._device.synchronize()  # DLPack has no streams for these devices
        return dlpack.export(
            self._array, self.dtype, self._device.dlpack_device,
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy,
        )  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.dlpack_device

    def __eas_view__(self) -> ArgView:
        readonly = not self._array.flags.writeable
        return ArgView(
            "tensor", self.dtype, self._array, self._owner, readonly=readonly, device=self.device
        )

    def __reduce__(self) -> tuple[object, ...]:
        self._device.synchronize()
        return (_unpickled, (np.ascontiguousarray(self._array), self.dtype, self.device))


def _index_part(part: object) -> int | slice | EllipsisType | None:
    if part is None or part is ... or isinstance(part, slice):
        return part
    # A bool is an int to Python and a mask to NumPy; arrays of one element have __index__ too.
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return operator.index(part)
    raise ArgumentError(
        f"a tensor is indexed with integers, slices, None and ..., got {type(part).__name__}",
        hint="eas.tensor(x.numpy()[index]) copies the elements that an array selects",
    )


# --- shapes and memory --------------------------------------------------------------------------


def _shape(shape: Any) -> tuple[int, ...]:
    """The tuple meant by `3`, `(2, 3)`, `(3,)` from `*shape`, or `((2, 3),)`."""
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    try:
        return tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise ArgumentError(f"a shape is made of integers, got {tuple(sizes)!r}", hint="use // where a size is a quotient") from None


def _unpickled(storage: Array, dtype: DType, device: str = "cpu") -> Tensor:
    """A new tensor with a copy of an array in storage form."""
    home = device_of(device)
    return Tensor(stored(storage, dtype, home), dtype, device=home)


def _shared(seen: ArgView) -> Tensor:
    """A tensor on the memory of a foreign array."""
    array = seen.array.view()  # whoever reshapes the original in place does not reshape ours
    if seen.readonly:
        array.flags.writeable = False
    return Tensor(array, seen.dtype, seen.owner, device_of(seen.device))


# --- making tensors -----------------------------------------------------------------------------


def tensor(data: object, device: object = None, dtype: DTypeLike = None) -> Tensor:
    """A tensor of `data`.

    NumPy arrays, torch tensors, DLPack producers, buffers and other tensors share their memory
    unless `dtype` or `device` asks for a copy; what cannot be shared (a foreign byte order, an
    object that gives NumPy copies only, a torch tensor on another device) is copied. Python numbers
    and lists are copied, as bool, i32 (i64 or u64 where the values need it) and f32 unless `dtype`
    says otherwise. The device is that of the data unless it is given; numbers live on the CPU.
    """
    if device is not None:
        device_of(device)  # refused before anything is copied
    if isinstance(data, bool | int | float | np.generic | list | tuple | range):
        made = Tensor(*of_numbers(data, dtype))
    elif isinstance(data, str) or data is None:
        raise ArgumentError(f"eas.tensor takes numbers, lists, arrays and tensors, got {data!r}", hint="eas.tensor([1.0, 2.0])")
    elif isinstance(data, Tensor):
        made = data
    elif torch_bridge.is_torch_tensor(data):
        made = _shared(torch_bridge.memory_of(torch_bridge.within_reach(data)))
    elif hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        made = from_dlpack(data)
    else:
        made = _shared(view(readable(data), "data"))
    return made.to(device=device, dtype=dtype)


def empty(*shape: Any, device: object = "cpu", dtype: DTypeLike = dtypes.f32) -> Tensor:
    """A tensor with arbitrary contents."""
    wanted, home = as_dtype(dtype), device_of(device)
    return Tensor(allocate(_shape(shape), wanted, home), wanted, device=home)


def zeros(*shape: Any, device: object = "cpu", dtype: DTypeLike = dtypes.f32) -> Tensor:
    """A tensor of zeros."""
    return full(_shape(shape), 0, device=device, dtype=dtype)


def ones(*shape: Any, device: object = "cpu", dtype: DTypeLike = dtypes.f32) -> Tensor:
    """A tensor of ones."""
    return full(_shape(shape), 1, device=device, dtype=dtype)


def full(shape: Shape, value: Number, *, device: object = "cpu", dtype: DTypeLike = None) -> Tensor:
    """A tensor whose elements are all `value`."""
    one = tensor(value, dtype=dtype)
    made = empty(_shape(shape), device=device, dtype=one.dtype)
    made._array[...] = one._array
    return made


def empty_like(x: object, *, device: object = None, dtype: DTypeLike = None) -> Tensor:
    """A contiguous tensor of the shape, dtype and device of `x`, with arbitrary contents."""
    like = tensor(x)
    wanted = like.dtype if dtype is None else dtype
    return empty(like.shape, device=like.device if device is None else device, dtype=wanted)


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
    return Tensor(*of_weak(values, dtype)).to(device=device)


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
    return Tensor(converted(np.asarray(values), drawn, wanted, home), wanted, device=home)


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
    if not x._array.flags.writeable:
        raise ArgumentError(
            "to_dlpack cannot share a read-only tensor: legacy capsules have no such flag",
            hint="eas.to_dlpack(x.clone())",
        )
    return x.__dlpack__()
