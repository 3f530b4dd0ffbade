"""Kernel arguments: which arrays are seen without a copy, and which are refused."""

import array
import ctypes
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.errors import ArgumentError
from eas.interop.arg_view import reach_of
from eas.interop.arguments import ArgView, hidden_value, is_scalar, view
from eas.interop.capsules import content_of
from eas.interop.hidden import Hidden

REPO = Path(__file__).resolve().parents[2]


def refusal(value):
    with pytest.raises(ArgumentError) as caught:
        view(value, "x")
    assert isinstance(caught.value, TypeError)
    assert "argument 'x'" in caught.value.message
    return str(caught.value)


def shares(a, b):
    return np.shares_memory(a, b)


# --- scalars ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [True, 0, -3, 2**70, 1.5, float("nan"), np.int8(1), np.uint64(1), np.float16(1), np.True_],
)
def test_numbers_are_scalars(value):
    assert is_scalar(value)


@pytest.mark.parametrize(
    "value",
    [None, "1", 1j, np.complex64(1), np.timedelta64(1), np.str_("1"), np.array(1.0), [1], b"1"],
)
def test_other_things_are_not_scalars(value):
    assert not is_scalar(value)


def test_zero_dimensional_torch_tensor_is_not_a_scalar():
    torch = pytest.importorskip("torch")
    assert not is_scalar(torch.tensor(1.0))
    assert view(torch.tensor(1.0), "x").shape == ()


# --- NumPy --------------------------------------------------------------------------------------


def test_importing_arguments_does_not_import_torch():
    code = "import sys, eas.interop.arguments; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPO).returncode == 0


@pytest.mark.parametrize(
    "name", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "float16", "float32", "float64", "longlong", "intc"],
)  # fmt: skip
def test_numpy_array_is_seen_in_place(name):
    a = np.ones((3, 4), name)
    v = view(a, "x")
    assert v.dtype is dtypes.from_numpy(a.dtype)
    assert (v.shape, v.strides, v.offset, v.device) == ((3, 4), (4, 1), 0, "cpu")
    assert v.is_contiguous
    assert not v.readonly
    assert v.owner is a
    assert v.array.dtype == v.dtype.np_storage
    assert shares(v.array, a)


def test_strides_are_in_elements():
    a = np.zeros((4, 6), np.float64)
    v = view(a[::-2, 1::3], "x")
    assert (v.shape, v.strides) == ((2, 2), (-12, 3))
    assert not v.is_contiguous
    assert view(np.broadcast_to(a[:1], (5, 6)), "x").strides == (0, 1)


@pytest.mark.parametrize(("step", "fits"), [(7, True), (2**31 - 1, True), (2**31, False), (2**32 + 1, False)])
def test_strides_fit_32_bits(step, fits):
    found = view(np.lib.stride_tricks.as_strided(np.zeros(4, np.uint8), (2, 2), (step, 1)), "x")
    if fits:
        assert hidden_value(found, Hidden("stride", "x")) == step
        return
    with pytest.raises(ArgumentError, match=rf"x\.stride\(0\) is {step}, which does not fit i32"):
        hidden_value(found, Hidden("stride", "x"))


def test_read_only_array_is_marked():
    a = np.zeros(3)
    a.flags.writeable = False
    assert view(a, "x").readonly


def test_zero_dimensional_and_empty_arrays_are_buffers():
    assert view(np.array(2.0), "x").shape == ()
    assert view(np.zeros((0, 3)), "x").is_contiguous


def test_misaligned_array_is_not_contiguous():
    raw = np.zeros(17, np.uint8)
    assert not view(raw[1:].view(np.float32), "x").is_contiguous


def test_array_subclass_is_seen_as_plain_array(tmp_path):
    m = np.memmap(tmp_path / "m", np.float32, "w+", shape=(4,))
    v = view(m, "x")
    assert type(v.array) is np.ndarray
    assert v.owner is m
    v.array[:] = 7
    assert (m == 7).all()


def test_repr_says_what_it_is():
    assert (
        repr(view(np.zeros((2, 3), np.int32), "x")) == "ArgView(x: i32[2, 3], strides (3, 1), cpu)"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros(3, np.complex64), "argument 'x': kernels cannot take NumPy dtype 'complex64'"),
        (np.zeros(3, object), "kernels cannot take NumPy dtype 'object'"),
        (np.zeros(3, "U4"), "kernels cannot take NumPy dtype 'str"),
        (np.zeros(3, "i4,f4"), "kernels cannot take NumPy dtype 'void64'"),
        (np.zeros(3, ">f4"), "arrays of NumPy dtype '>f4' are not in this machine's byte order"),
        (np.zeros(3, "u1,f4")["f1"], "has strides (5,) in bytes, which are not whole elements"),
        (np.ma.masked_array([1.0, 2.0]), "is a masked array, whose mask a kernel cannot see"),
        ([1, 2], "is a list, not an array\n  hint: make one with np.asarray"),
        ((1, 2), "is a tuple, not an array"),
        (
            "abc",
            "is 'abc', which a kernel cannot take\n  hint: annotate the parameter as eas.constexpr",
        ),
        (None, "is None, which a kernel cannot take"),
        (3.5, "is the number 3.5, where the kernel needs an array"),
        (np.float32(3), "is the number 3.0, where the kernel needs an array"),
        (np.complex64(3), "has type complex64, which a kernel cannot take"),
        (object(), "has type object, which a kernel cannot take\n  hint: pass a NumPy array"),
    ],
)
def test_what_has_no_usable_memory_is_refused(value, text):
    if sys.byteorder == "big" and ">f4" in text:
        pytest.skip("that is the native order here")
    assert text in refusal(value)


# --- protocols ----------------------------------------------------------------------------------


def test_eas_view_is_asked_first():
    a = np.zeros(4, np.uint16)

    class Tensor:
        def __eas_view__(self):
            return ArgView("", dtypes.bf16, a, self, device="mps", offset=3)

    t = Tensor()
    v = view(t, "weights")
    assert (v.name, v.dtype, v.device, v.offset) == ("weights", dtypes.bf16, "mps", 3)
    assert v.array is a
    assert v.owner is t


class _OnlyDLPack:
    def __init__(self, array, device=(1, 0)):
        self.array = array
        self.device = device

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.device


def test_dlpack_object_is_shared():
    a = np.arange(6.0).reshape(2, 3)
    v = view(_OnlyDLPack(a), "x")
    assert v.dtype is dtypes.f64
    assert shares(v.array, a)
    assert view(_OnlyDLPack(a.T), "x").strides == (1, 3)


def test_read_only_dlpack_object_stays_read_only():
    a = np.arange(6.0)
    a.flags.writeable = False
    assert view(_OnlyDLPack(a), "x").readonly


def test_dlpack_object_of_an_immutable_library_is_read_only():
    cls = type("ArrayImpl", (_OnlyDLPack,), {"__module__": "jaxlib._jax"})
    assert view(cls(np.zeros(3)), "x").readonly


def test_dlpack_object_elsewhere_is_refused():
    assert (
        "has type _OnlyDLPack and lives on DLPack device 2, a kernel needs memory of the CPU or of Metal"
        in refusal(_OnlyDLPack(np.zeros(3), (2, 0)))
    )


def test_dlpack_object_that_numpy_refuses_is_refused():
    torch = pytest.importorskip("torch")
    message = refusal(_OnlyDLPack(torch.zeros(3, dtype=torch.bfloat16)))
    assert (
        "has type _OnlyDLPack, which NumPy cannot share through DLPack: Unsupported dtype"
        in message
    )


class _Freed(_OnlyDLPack):
    """A producer whose memory is gone."""

    byte_offset = 0

    def __dlpack__(self, **kwargs):
        capsule = self.array.__dlpack__(**kwargs)
        content = content_of(capsule)[0]
        content.data, content.byte_offset = None, self.byte_offset
        return capsule


@pytest.mark.parametrize("byte_offset", [0, 64])
def test_dlpack_object_without_memory_is_refused(byte_offset):
    freed = _Freed(np.ones((2, 3), np.float32))
    freed.byte_offset = byte_offset
    message = refusal(freed)
    assert "is a DLPack tensor of shape (2, 3) without memory" in message
    assert "hint: its storage was freed or resized: make a new tensor" in message


def test_dlpack_object_without_elements_needs_no_memory():
    assert view(_Freed(np.ones((2, 0), np.float32)), "x").shape == (2, 0)


def test_kernel_does_not_run_on_a_dlpack_object_without_memory():
    @eas.kernel
    def fill(out, N, BLOCK: eas.constexpr = 4):
        mk.store(out + mk.arange(BLOCK), 1.0)

    for _ in range(6):
        fill(_OnlyDLPack(np.zeros(4, np.float32)), 4)
    with pytest.raises(ArgumentError, match=r"argument 'out' is a DLPack tensor of shape .* without memory"):
        fill(_Freed(np.zeros(4, np.float32)), 4)


def test_other_memory_at_address_zero_is_refused():
    class Interface:
        __array_interface__ = {"data": (0, False), "shape": (4,), "typestr": "<f4", "version": 3}  # noqa: RUF012

    assert "has type Interface, whose memory NumPy cannot read: data is NULL" in refusal(Interface())
    buffer = (ctypes.c_float * 4).from_address(0)
    assert "has type c_float_Array_4 and shape (4,), but no memory" in refusal(buffer)
    assert view((ctypes.c_float * 0)(), "x").shape == (0,)


def test_torch_tensor_without_memory_is_refused():
    torch = pytest.importorskip("torch")
    assert "has type Tensor and shape (4,), but no memory" in refusal(torch.from_dlpack(_Freed(np.ones(4, np.float32))))


@pytest.mark.parametrize("part", [slice(None), slice(2, None), slice(None, None, 3)], ids=str)
def test_torch_tensor_whose_storage_was_resized(part):
    """Up to its last element, and no byte less."""
    torch = pytest.importorskip("torch")
    enough, tensor = (torch.arange(10, dtype=torch.float32)[part] for _ in range(2))
    needed = 4 * (tensor.storage_offset() + (len(tensor) - 1) * tensor.stride(0) + 1)
    enough.untyped_storage().resize_(needed)
    tensor.untyped_storage().resize_(needed - 4)
    assert view(enough, "x").shape == tuple(enough.shape)
    with pytest.raises(ArgumentError, match=f"whose storage was resized to {needed - 4} bytes"):
        view(tensor, "x")


def test_array_interface_is_shared():
    a = np.arange(5, dtype=np.int16)

    class Interface:
        __array_interface__ = a.__array_interface__

    v = view(Interface(), "x")
    assert v.dtype is dtypes.i16
    assert shares(v.array, a)


def test_array_method_is_refused_because_it_copies():
    class Series:
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("must not be called")

    message = refusal(Series())
    assert "has type Series, which gives NumPy copies only" in message
    assert "hint: pass np.asarray(x)" in message


def test_buffer_protocol_is_shared():
    numbers = array.array("f", [1, 2, 3])
    v = view(numbers, "x")
    assert (v.dtype, v.readonly) == (dtypes.f32, False)
    v.array[0] = 9
    assert numbers[0] == 9

    raw = bytearray(4)
    view(raw, "x").array[:] = 7
    assert raw == b"\7\7\7\7"

    shaped = memoryview(raw).cast("B", (2, 2))
    assert view(shaped, "x").shape == (2, 2)
    assert view(b"abc", "x").readonly


def test_buffer_of_unknown_format_is_refused():
    message = refusal((ctypes.c_void_p * 2)())
    assert "has type c_void_p_Array_2, which NumPy cannot read: '<P' is not a valid" in message
    assert "kernels cannot take NumPy dtype 'object'" in refusal((ctypes.py_object * 2)())


# --- torch --------------------------------------------------------------------------------------


def test_torch_tensor_is_shared():
    torch = pytest.importorskip("torch")
    for name in (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
    ):
        t = torch.ones(2, 3, dtype=getattr(torch, name))
        v = view(t, "x")
        assert v.dtype is dtypes.parse(name)
        assert (v.shape, v.strides, v.readonly) == ((2, 3), (3, 1), False)
        v.array[...] = 0
        assert not t.any()
        assert v.owner is t


def test_torch_slice_starts_at_its_own_first_element():
    torch = pytest.importorskip("torch")
    t = torch.arange(12.0).reshape(3, 4)
    v = view(t[1:, 2], "x")
    assert v.array.tolist() == [6.0, 10.0]
    assert (v.strides, v.offset) == ((4,), 0)


def test_torch_formats_that_numpy_lacks_are_seen_as_bits():
    torch = pytest.importorskip("torch")
    for name, want in [
        ("bfloat16", dtypes.bf16),
        ("float8_e4m3fn", dtypes.f8e4m3),
        ("float8_e5m2", dtypes.f8e5m2),
    ]:
        t = torch.ones(4, 2).to(getattr(torch, name)).t()
        v = view(t, "x")
        assert v.dtype is want
        assert v.array.dtype == want.np_storage
        assert (v.shape, v.strides) == ((2, 4), (1, 2))
        v.array[...] = 0
        assert t.float().sum() == 0


def test_torch_tensor_that_requires_grad_is_marked():
    torch = pytest.importorskip("torch")
    for t in (
        torch.nn.Parameter(torch.ones(3)),
        torch.ones(3, dtype=torch.bfloat16).requires_grad_(),
    ):
        assert view(t, "x").requires_grad_leaf
        assert view(t * 2, "x").requires_grad_leaf
        assert not view(t.detach(), "x").requires_grad_leaf
        with torch.no_grad():
            assert not view(t, "x").requires_grad_leaf


def test_torch_tensors_without_cpu_memory_are_refused():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    conjugate = torch.tensor([1 + 2j]).conj()
    for t, text in [
        (torch.ones(3, device="meta"), "is a torch tensor without data (Tensor on meta)"),
        (fake, "is a torch tensor without data (FakeTensor on cpu)"),
        (
            torch.eye(3).to_sparse(),
            "is a torch tensor of layout sparse_coo, a kernel needs a strided one",
        ),
        (conjugate, "is a torch tensor of torch.complex64, which kernels cannot take"),
        (
            conjugate.imag,
            "is a torch tensor with its negative bit set\n  hint: pass x.resolve_neg()",
        ),
        (torch.ones(3).to(torch.float8_e4m3fnuz), "is a torch tensor without memory to share: "),
    ]:
        assert text in refusal(t)


def test_torch_tensor_inside_a_transform_is_refused():
    torch = pytest.importorskip("torch")

    def body(x):
        assert "without memory to share" in refusal(x)
        return x.sum()

    torch.vmap(body)(torch.ones(2, 3))


def test_torch_tensor_on_mps_is_refused_for_now():
    torch = pytest.importorskip("torch")
    if not torch.backends.mps.is_available():
        pytest.skip("needs an Apple GPU")
    assert "on mps, which eas cannot take in this version" in refusal(torch.ones(3, device="mps"))


def test_reach_is_from_the_first_element_to_the_last():
    """Of every small array, as its elements lie."""
    for shape in itertools.product((0, 1, 2, 3), repeat=2):
        for strides in itertools.product((0, 1, 2, 5, -1, -3), repeat=2):
            places = {i * strides[0] + k * strides[1] for i in range(shape[0]) for k in range(shape[1])}
            assert reach_of(shape, strides) == (max(places) - min(places) + 1 if places else 0), (shape, strides)


def test_memory_between_elements_is_reached_only_where_it_can_be():
    memory = np.zeros(8 * 12 + 4, np.uint8)
    whole, odd = (memory[at : at + 96].view(np.float64) for at in (0, 4))
    assert view(whole[::2], "x").reach().size == 11
    with pytest.raises(ArgumentError, match=r"argument .x. is not aligned to its elements(.|\n)*pass x.copy"):
        view(odd[::2], "x").reach()
    with pytest.raises(ArgumentError, match="argument 'x' has negative strides"):
        view(whole[::-2], "x").reach()


def test_strides_that_positions_in_32_bits_cannot_follow():
    """The last element may lie 2^31 - 1 behind the first, and no further; whoever asks in 64 bits gets any stride."""
    for last, fits in ((2**31 - 1, True), (2**31, False), (2**31 + 1, False)):
        shape, strides = (2, 3), (last - 2, 1)
        for is_narrow in (True, False):
            found = Hidden("stride", "x", 0, 2, is_narrow).of(shape, strides)
            assert found is not None
            assert (found >= 1 << 31) == (is_narrow and not fits)
            assert not fits or found == strides[0]


def test_numbers_about_axes_are_told_only_of_arrays_with_those_axes():
    shape, strides = (5, 3, 2), (6, 2, 1)
    for rank, axis, ndim in itertools.product((1, 2, 3), range(-4, 4), (0, 1, 2, 3)):
        has_axis = -rank <= axis < rank and ndim in (0, rank)
        for kind, numbers in (("shape", shape[:rank]), ("stride", strides[:rank])):
            assert Hidden(kind, "x", axis, ndim).of(shape[:rank], strides[:rank]) == (numbers[axis] if has_axis else None)
