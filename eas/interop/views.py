"""Foreign arrays seen as typed memory, without copies."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError
from eas.base.facts import Extent
from eas.base.loading import load

Array = NDArray[Any]


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
        address: int = self.addresses.__array_interface__["data"][0]
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
        if _is_torch_tensor(self.owner):
            sys.modules["torch"].autograd.graph.increment_version(self.owner)

    def __repr__(self) -> str:
        return f"ArgView({self.name}: {self.dtype}{list(self.shape)}, strides {self.strides}, {self.device})"


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


def is_scalar(value: object) -> bool:
    """True for numbers that travel by value; a 0-d array is a buffer."""
    if isinstance(value, bool | int | float):
        return True
    return isinstance(value, np.generic) and value.dtype.kind in "biuf"


def view(value: object, name: str) -> ArgView:
    """The memory of `value`, without a copy; refuses what has no memory that a kernel can use."""
    if type(value) is np.ndarray:
        return _numpy_view(value, value, name)
    own = getattr(value, "__eas_view__", None)
    if own is not None:
        found: ArgView = own()
        return found if found.name == name else found.named(name)
    if _is_torch_tensor(value):
        return _torch_view(value, name)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise _refusal(
                name,
                "is a masked array, whose mask a kernel cannot see",
                "pass a.filled(...) or a.data",
            )
        return _numpy_view(np.asarray(value), value, name)
    convert = None if isinstance(value, np.generic) else _protocol_of(value)
    if convert is None:
        raise _no_memory(value, name)
    return convert(value, name)


# --- NumPy --------------------------------------------------------------------------------------

_known_dtypes: dict[np.dtype[Any], DType] = {}


def _numpy_view(array: Array, owner: object, name: str, *, readonly: bool = False) -> ArgView:
    dtype = _known_dtypes.get(array.dtype) or _learn_dtype(array.dtype, name)
    if array.dtype is not dtype.np_storage:
        array = array.view(dtype.np_storage)
    flags = array.flags
    if not flags.c_contiguous and any(step % dtype.nbytes for step in array.strides):
        raise _refusal(
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


# --- torch --------------------------------------------------------------------------------------

# Formats that NumPy lacks: the eas type, and the torch integer of that width.
_TORCH_ONLY = {
    "torch.bfloat16": (dtypes.bf16, "uint16"),
    "torch.float8_e4m3fn": (dtypes.f8e4m3, "uint8"),
    "torch.float8_e5m2": (dtypes.f8e5m2, "uint8"),
}


def _is_torch_tensor(value: object) -> bool:
    # No torch tensor can exist before somebody else has imported torch.
    cls = getattr(sys.modules.get("torch"), "Tensor", None)
    return cls is not None and isinstance(value, cls)


def _torch_view(tensor: Any, name: str) -> ArgView:
    torch = sys.modules["torch"]
    _check_torch(torch, tensor, name)
    if tensor.device.type == "mps":
        from eas.interop.torch_mps import TorchMpsView  # it imports this file

        return TorchMpsView(name, tensor)
    data = tensor.detach() if tensor.requires_grad else tensor
    dtype, integer = _TORCH_ONLY.get(str(tensor.dtype), (None, ""))
    if dtype is not None:
        data = data.view(getattr(torch, integer))
    try:
        array = data.numpy()
    except (RuntimeError, TypeError) as error:  # wrapped by vmap or torch.func, quantized, ...
        raise _refusal(name, f"is a torch tensor without memory to share: {error}", "") from None
    seen = _shared_view(array, tensor, name)
    seen.dtype = dtype or seen.dtype
    seen.requires_grad_leaf = tensor.requires_grad and torch.is_grad_enabled()
    return seen


def _check_torch(torch: Any, tensor: Any, name: str) -> None:
    """Refuse tensors that are not strided numbers in memory of the CPU or of Metal."""
    device = tensor.device.type
    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise _refusal(
            name,
            f"is a torch tensor of layout {layout}, a kernel needs a strided one",
            "pass x.to_dense()",
        )
    if device == "meta" or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        kind = type(tensor).__name__
        raise _refusal(
            name, f"is a torch tensor without data ({kind} on {device})", "pass a real tensor"
        )
    if device not in ("cpu", "mps"):
        raise _refusal(name, f"is a torch tensor on {device}, which eas cannot take", "pass x.cpu()")
    if tensor.is_quantized:
        raise _refusal(
            name,
            f"is a quantised torch tensor ({tensor.dtype}), whose scales a kernel cannot see",
            "pass x.int_repr() or x.dequantize()",
        )
    if tensor.is_complex():
        raise _refusal(
            name,
            f"is a torch tensor of {tensor.dtype}, which kernels cannot take",
            "pass torch.view_as_real(x)",
        )
    if tensor.is_neg():
        raise _refusal(name, "is a torch tensor with its negative bit set", "pass x.resolve_neg()")
    try:
        nbytes = tensor.untyped_storage().nbytes()
    except NotImplementedError:  # a wrapper, as inside of vmap; whoever takes CPU memory refuses it
        if device == "mps":
            raise _refusal(name, "is a torch tensor without memory to share", "") from None
        return
    if nbytes < _reach_nbytes(tensor):
        raise _refusal(
            name,
            f"is a torch tensor of shape {tuple(tensor.shape)} whose storage was resized to {nbytes} bytes",
            "give it memory again with x.untyped_storage().resize_(nbytes)",
        )


def _reach_nbytes(tensor: Any) -> int:
    """How far into its storage a tensor reaches."""
    if not tensor.numel():
        return 0
    reach = tensor.numel() if tensor.is_contiguous() else reach_of(tensor.shape, tensor.stride())
    return int((tensor.storage_offset() + reach) * tensor.element_size())


# --- other libraries ----------------------------------------------------------------------------

_DLPACK_CPU = 1
_METAL = 8
_IMMUTABLE = ("jax", "jaxlib", "mlx")  # they export DLPack memory as writable that they never change


def _protocol_of(value: object) -> Callable[[Any, str], ArgView] | None:
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_view
    if hasattr(value, "__array_interface__"):
        return _interface_view
    try:
        memoryview(value)  # type: ignore[arg-type]  # the question is whether it is a buffer
    except (TypeError, BufferError):
        return None
    return _buffer_view


def _dlpack_view(value: Any, name: str) -> ArgView:
    kind = type(value)
    device = int(value.__dlpack_device__()[0])
    if device not in (_DLPACK_CPU, _METAL):
        raise _refusal(
            name,
            f"has type {kind.__name__} and lives on DLPack device {device}, a kernel needs memory of the CPU or of Metal",
            "copy it to the CPU",
        )
    load("eas.interop.dlpack")
    from eas.interop import dlpack  # it imports this file

    if device == _METAL or is_of_mlx(value):
        try:
            return dlpack.memory_of(value).named(name)
        except ArgumentError as error:
            raise ArgumentError(f"argument {name!r}: {error.message}", hint=error.hint) from None
    try:
        array = np.from_dlpack(dlpack.WithMemory(value))
    except dlpack.NoMemory as error:
        raise _refusal(name, f"is a DLPack tensor of shape {error.args[0]} without memory", dlpack.NO_MEMORY_HINT) from None
    except (RuntimeError, TypeError, ValueError, BufferError) as error:
        raise _refusal(
            name,
            f"has type {kind.__name__}, which NumPy cannot share through DLPack: {error}",
            "np.asarray(x)",
        ) from None
    return _shared_view(array, value, name, readonly=kind.__module__.split(".")[0] in _IMMUTABLE)


def is_of_mlx(value: object) -> bool:
    """Whether it is an array of MLX, which is computed when somebody asks for it."""
    return type(value).__module__.partition(".")[0] == "mlx"


def _interface_view(value: Any, name: str) -> ArgView:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise _refusal(name, f"has type {type(value).__name__}, whose memory NumPy cannot read: {error}", "np.asarray(x)") from None
    return _shared_view(array, value, name)


def _buffer_view(value: Any, name: str) -> ArgView:
    memory = memoryview(value)
    try:
        array = np.asarray(memory)
    except ValueError as error:
        raise _refusal(
            name,
            f"has type {type(value).__name__}, which NumPy cannot read: {error}",
            "np.asarray(x)",
        ) from None
    return _shared_view(array, value, name)


def _shared_view(array: Array, owner: object, name: str, *, readonly: bool = False) -> ArgView:
    """The view of an array that NumPy made over the memory of `owner`."""
    if array.flags.owndata and array.size:  # NumPy takes memory of its own for an address of 0
        raise _refusal(name, f"has type {type(owner).__name__} and shape {array.shape}, but no memory", "make a new one: its memory was freed or never there")
    return _numpy_view(array, owner, name, readonly=readonly)


# --- refusals -----------------------------------------------------------------------------------


def _refusal(name: str, what: str, hint: str) -> ArgumentError:
    return ArgumentError(f"argument {name!r} {what}", hint=hint)


def _no_memory(value: object, name: str) -> ArgumentError:
    kind = type(value).__name__
    if is_scalar(value):
        return _refusal(
            name, f"is the number {value}, where the kernel needs an array", "np.array([x])"
        )
    if isinstance(value, list | tuple):
        return _refusal(
            name,
            f"is a {kind}, not an array",
            "make one with np.asarray, and read results from that array",
        )
    if isinstance(value, str) or value is None:
        return _refusal(
            name,
            f"is {value!r}, which a kernel cannot take",
            "annotate the parameter as eas.constexpr",
        )
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return _refusal(
            name,
            f"has type {kind}, which gives NumPy copies only",
            "pass np.asarray(x), and read results from it",
        )
    return _refusal(
        name, f"has type {kind}, which a kernel cannot take", "pass a NumPy array, a torch tensor or an eas.Tensor"
    )  # fmt: skip
