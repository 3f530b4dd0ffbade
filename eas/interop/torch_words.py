"""Where native code finds what it asks of a torch tensor: offsets that are compared with what torch says, and functions of its stable C interface."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any

from eas.base.dtypes import DType
from eas.interop.targets import as_dtype

_FUNCTIONS = {
    "torch_data": "aoti_torch_get_data_ptr", "torch_dtype": "aoti_torch_get_dtype", "torch_dim": "aoti_torch_get_dim", "torch_sizes": "aoti_torch_get_sizes",
    "torch_strides": "aoti_torch_get_strides", "torch_offset": "aoti_torch_get_storage_offset", "torch_storage_nbytes": "aoti_torch_get_storage_size",
    # These two are C++, whose names say what they take.
    "torch_requires_grad": "_ZNK3c1010TensorImpl13requires_gradEv", "torch_bump": "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE",
}  # fmt: skip
NAMES = ("torch_tensor", "torch_parameter", "impl_at", "keys_at", "plain_keys", *_FUNCTIONS)
"""The words of `struct world` in eas/native/plan.h, in its order."""
_TORCH_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
_LOOKED_AT = 512  # bytes of an object in which an offset may be


def words() -> dict[str, int]:
    """The words, empty if torch is not loaded or is laid out in an unknown way."""
    return _found() if is_loaded() else {}


def is_loaded() -> bool:
    """Whether somebody has imported torch, to its end."""
    return hasattr(sys.modules.get("torch"), "compile")


def dtype_codes() -> dict[DType | None, int]:
    """What torch's C interface calls the dtypes."""
    return _codes() if words() else {}


@functools.cache
def _found() -> dict[str, int]:
    torch = sys.modules["torch"]
    functions = {name: _address(symbol) for name, symbol in _FUNCTIONS.items()}
    if not all(functions.values()) or not hasattr(torch._C, "_dispatch_keys"):
        return {}
    tensors = _probes(torch)
    impl_at = _offset([(id(t), t._cdata) for t in tensors], range(16, 64, 8))
    keys_at = _offset([(t._cdata, _keys(torch, t)) for t in tensors], range(8, _LOOKED_AT, 8))
    if impl_at is None or keys_at is None:
        return {}
    found = {"torch_tensor": id(torch.Tensor), "torch_parameter": id(torch.nn.Parameter), "impl_at": impl_at, "keys_at": keys_at, "plain_keys": _keys(torch, tensors[0])}
    return {**found, **functions} if all(_is_right(functions, t) for t in tensors[:4]) else {}


def _probes(torch: Any) -> list[Any]:
    """Four plain tensors, and some of other kinds, whose dispatch keys differ."""
    grown = torch.ones(5, requires_grad=True)
    with torch.inference_mode():
        frozen = torch.ones(3)
    complex_ = torch.ones(2, dtype=torch.complex64)
    plain = [torch.ones(4), torch.zeros(2, 3).t(), torch.arange(7, dtype=torch.int16)[2:], grown]
    return [*plain, torch._neg_view(torch.ones(2)), complex_.conj(), torch.ones(3).to_sparse(), torch.ones(2, device="meta"), frozen]


def _keys(torch: Any, tensor: Any) -> int:
    return int(torch._C._dispatch_keys(tensor).raw_repr())


def _offset(known: list[tuple[int, int]], offsets: range) -> int | None:
    """How far behind each address stands the word that is known of it, if that is true of one offset."""
    found = [at for at in offsets if all(ctypes.c_uint64.from_address(address + at).value == word for address, word in known)]
    return found[0] if len(found) == 1 else None


def _address(symbol: str) -> int:
    for library in _libraries():
        function = getattr(library, symbol, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


@functools.cache
def _libraries() -> list[ctypes.CDLL]:
    """Torch's own, which are loaded already."""
    folder = Path(sys.modules["torch"].__file__ or "").parent / "lib"
    ending = ".dylib" if sys.platform == "darwin" else ".so"
    paths = [folder / f"lib{name}{ending}" for name in ("torch_cpu", "c10")]
    return [ctypes.CDLL(str(path)) for path in paths if path.exists()]


def _is_right(functions: dict[str, int], tensor: Any) -> bool:
    """Whether the functions say of a tensor what torch says."""
    impl = ctypes.c_void_p(tensor._cdata)

    def asked(name: str, kind: Any) -> Any:
        out = kind()
        status = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(functions[name])(ctypes.addressof(impl), ctypes.addressof(out))
        return out.value if status == 0 else None

    def axes(name: str) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * tensor.dim()).from_address(asked(name, ctypes.c_void_p)))

    grows = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(functions["torch_requires_grad"])(tensor._cdata)
    version = tensor._version
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions["torch_bump"])(ctypes.addressof(impl))
    return (
        (asked("torch_data", ctypes.c_void_p), asked("torch_dim", ctypes.c_int64), asked("torch_offset", ctypes.c_int64), asked("torch_storage_nbytes", ctypes.c_int64))
        == (tensor.data_ptr(), tensor.dim(), tensor.storage_offset(), tensor.untyped_storage().nbytes())
        and (axes("torch_sizes"), axes("torch_strides"), grows) == (tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad)
        and tensor._version == version + 1
    )  # fmt: skip


@functools.cache
def _codes() -> dict[DType | None, int]:
    torch, ask = sys.modules["torch"], ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(_found()["torch_dtype"])
    codes: dict[DType | None, int] = {}
    for name in _TORCH_DTYPES:
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        tensor, code = torch.empty(0, dtype=dtype), ctypes.c_int32()
        impl = ctypes.c_void_p(tensor._cdata)
        if ask(ctypes.addressof(impl), ctypes.addressof(code)) == 0:
            codes[as_dtype(dtype)] = code.value
    return codes
