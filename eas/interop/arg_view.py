"""One array argument as typed memory, and NumPy arrays seen that way, without copies."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError
from eas.base.facts import Extent

Array = NDArray[Any]
TENSOR_CLASSES: list[type[Any]] = []
"""eas.Tensor, when there is one: memory in slots of its objects."""
IMMUTABLE = ("jax", "jaxlib", "mlx")  # they export DLPack memory as writable that they never change


class ArgView:
    """One array argument as memory: `array` holds the storage format (uint16 for bf16)."""

    __slots__ = (
        "array", "device", "dtype", "name", "offset", "owner", "readonly", "requires_grad_leaf",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        dtype: DType,
        array: Array,
        owner: object,
        *,
        readonly: bool = False,
        device: str = "cpu",
        offset: int = 0,
        requires_grad_leaf: bool = False,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.array = array
        self.owner = owner  # keeps the memory alive
        self.readonly = readonly
        self.device = device
        self.offset = offset  # in elements, from the start of a device buffer; 0 on the CPU
        # A torch tensor whose writes autograd has to see: it requires grad and grad mode is on.
        self.requires_grad_leaf = requires_grad_leaf

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def nbytes(self) -> int:
        """Of its elements, without gaps."""
        return math.prod(self.shape) * self.dtype.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in elements, not bytes."""
        return tuple(step // self.dtype.nbytes for step in self.array.strides)

    @property
    def is_contiguous(self) -> bool:
        """True if a kernel can run on the memory itself: C order, no gaps, aligned elements."""
        flags = self.array.flags
        return flags.c_contiguous and flags.aligned

    is_private = False
    """Whether only the GPU sees the elements: `array` is a layout then."""
    must_finish = False
    """Whether others use the memory who know nothing of our streams: a launch on it ends before the call returns."""

    @property
    def home(self) -> object:
        """What `addresses` are counted in: 0 is the memory of this process."""
        return 0

    @property
    def addresses(self) -> Array:
        """An array that lies as the elements do, for questions of overlap."""
        return self.array

    @property
    def extent(self) -> Extent:
        """Where its elements begin, and how many there are."""
        address = address_of(self.addresses)
        size = math.prod(self.shape)
        return Extent(self.home, address, size * self.dtype.nbytes, size)

    def reach(self) -> Any:
        """The memory from the first element to the last, gaps included, as one flat array."""
        return _reach(self)

    def copied(self) -> Any:
        """A copy without gaps, as one flat array."""
        return self.array.copy(order="C").reshape(-1)

    def blank(self) -> Any:
        """New memory for as many elements."""
        return np.empty(self.array.size, self.array.dtype)

    def write_back(self, copy: Any) -> None:
        """Overwrite the elements with those of what `copied` gave, or with a number."""
        self.array[...] = copy.reshape(self.shape) if isinstance(copy, np.ndarray) else copy

    def named(self, name: str) -> ArgView:
        """The same memory under the name of another parameter."""
        return ArgView(
            name, self.dtype, self.array, self.owner, readonly=self.readonly, device=self.device,
            offset=self.offset, requires_grad_leaf=self.requires_grad_leaf,
        )  # fmt: skip

    def note_write(self) -> None:
        """Let autograd know that the memory of a torch tensor has changed."""
        if is_torch_tensor(self.owner):
            sys.modules["torch"].autograd.graph.increment_version(self.owner)

    def __repr__(self) -> str:
        return f"ArgView({self.name}: {self.dtype}{list(self.shape)}, strides {self.strides}, {self.device})"


def address_of(array: Array) -> int:
    """Where the elements of an array start; `array.ctypes` imports a module, which fails while Python ends."""
    return int(array.__array_interface__["data"][0])


def _reach(view: ArgView) -> Array:
    array = view.array
    if view.is_contiguous:
        return array.reshape(-1)
    if any(step < 0 and size > 1 for size, step in zip(array.shape, array.strides, strict=True)):
        raise ArgumentError(
            f"argument {view.name!r} has negative strides {view.strides}, which a kernel that asks for strides cannot take",
            hint=f"pass np.ascontiguousarray({view.name})",
        )
    if not array.flags.aligned:
        raise ArgumentError(
            f"argument {view.name!r} is not aligned to its elements, which a kernel that asks for strides needs",
            hint=f"pass {view.name}.copy()",
        )
    return np.lib.stride_tricks.as_strided(array, (reach_of(view.shape, view.strides),), (array.itemsize,))


def reach_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last."""
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) if all(shape) else 0


def is_torch_tensor(value: object) -> bool:
    # No torch tensor can exist before somebody else has imported torch.
    cls = getattr(sys.modules.get("torch"), "Tensor", None)
    return cls is not None and isinstance(value, cls)


def is_of_mlx(value: object) -> bool:
    """Whether it is an array of MLX, which is computed when somebody asks for it."""
    return type(value).__module__.partition(".")[0] == "mlx"


_known_dtypes: dict[np.dtype[Any], DType] = {}


def numpy_view(array: Array, owner: object, name: str, *, readonly: bool = False) -> ArgView:
    dtype = _known_dtypes.get(array.dtype) or _learn_dtype(array.dtype, name)
    if array.dtype is not dtype.np_storage:
        array = array.view(dtype.np_storage)
    flags = array.flags
    if not flags.c_contiguous and any(step % dtype.nbytes for step in array.strides):
        raise refusal(
            name,
            f"has strides {array.strides} in bytes, which are not whole elements",
            "np.ascontiguousarray(a)",
        )
    return ArgView(name, dtype, array, owner, readonly=readonly or not flags.writeable)


def _learn_dtype(np_dtype: np.dtype[Any], name: str) -> DType:
    try:
        found = dtypes.from_numpy(np_dtype)
    except ArgumentError as error:
        raise ArgumentError(f"argument {name!r}: {error.message}", hint=error.hint) from None
    _known_dtypes[np_dtype] = found
    return found


def foreign_view(array: Array, owner: object, name: str, *, readonly: bool = False) -> ArgView:
    """The view of an array that NumPy made over the memory of `owner`."""
    if array.flags.owndata and array.size:  # NumPy takes memory of its own for an address of 0
        raise refusal(name, f"has type {type(owner).__name__} and shape {array.shape}, but no memory", "make a new one: its memory was freed or never there")
    return numpy_view(array, owner, name, readonly=readonly)


def refusal(name: str, what: str, hint: str) -> ArgumentError:
    return ArgumentError(f"argument {name!r} {what}", hint=hint)
