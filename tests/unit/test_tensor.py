"""`eas.Tensor` on the CPU: making, viewing, converting, and sharing memory with NumPy."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest

from eas.base import dtypes, errors
from eas.interop import devices
from eas.interop.arguments import view
from eas.interop.targets import UnknownDevice
from eas.runtime import get_runtime
from eas.tensor import (
    Tensor,
    arange,
    empty,
    empty_like,
    from_numpy,
    full,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)

NATIVE = [d for d in dtypes.ALL if d.np_storage == d.np_compute]
EXTENSION = [dtypes.bf16, dtypes.f8e4m3, dtypes.f8e5m2]


def address(array):
    return array.__array_interface__["data"][0]


def readonly(array):
    array = array.view()
    array.flags.writeable = False
    return array


# --- making tensors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (True, dtypes.bool_),
        (3, dtypes.i32),
        (2**31, dtypes.i64),
        (2**63, dtypes.u64),
        (0.5, dtypes.f32),
        ([], dtypes.f32),
        ([1, 2], dtypes.i32),
        ([0, -(2**40)], dtypes.i64),
        ([1, 2**63 + 1], dtypes.u64),
        ([0, 2**64 - 1], dtypes.u64),
        ([[1, 2.5]], dtypes.f32),
        ((True, False), dtypes.bool_),
        (range(3), dtypes.i32),
        (np.float64(1), dtypes.f64),
        (np.int16(1), dtypes.i16),
        ([np.float64(1)], dtypes.f64),
        ([np.zeros(2, np.float16)], dtypes.f16),
    ],
)
def test_numbers_choose_their_dtype(data, dtype):
    made = tensor(data)
    assert made.dtype is dtype
    assert made.tolist() == np.array(data, dtype=object).tolist()


def test_numbers_are_rounded_once():
    # 1 + 2**-11 + 2**-40 rounds up in f16; by way of f32 it would be a tie, and go down.
    assert tensor([1 + 2**-11 + 2**-40], dtype="f16").item() == 1 + 2**-10


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(errors.ArgumentError, match=r"300 does not fit u8\n  hint: .*\[0, 255\]"):
        tensor([1, 300], dtype="u8")
    with pytest.raises(errors.ArgumentError, match="-1 does not fit u64"):
        full(3, -1, dtype="u64")
    with pytest.raises(errors.ArgumentError, match="holds both -1 and 9223372036854775808"):
        tensor([-1, 2**63])
    with pytest.raises(errors.ArgumentError, match="same length"):
        tensor([[1], [1, 2]])
    with pytest.raises(errors.ArgumentError, match="'object'"):
        tensor([2**70])


def test_strings_are_refused():
    with pytest.raises(errors.ArgumentError, match=r"eas\.tensor takes numbers, lists, arrays and tensors, got 'abc'"):
        tensor("abc")


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_makers_fill_every_dtype(dtype):
    one = 1 if dtype.is_bool else 3
    assert full((2, 2), one, dtype=dtype).tolist() == [[one, one]] * 2
    assert zeros(2, 3, dtype=dtype).tolist() == [[0] * 3] * 2
    assert ones((2,), dtype=dtype).tolist() == [1, 1]
    assert empty_like(ones(4, 5, dtype=dtype)).dtype is dtype
    assert zeros_like(ones(2, dtype=dtype)).tolist() == [0, 0]
    assert ones_like(np.zeros(2), dtype=dtype).tolist() == [1, 1]


def test_makers_default_to_f32_and_take_shapes_as_torch_does():
    assert (empty(2, 3).shape, empty((2, 3)).shape, empty([2]).shape) == ((2, 3), (2, 3), (2,))
    assert (empty().shape, zeros(()).shape, full(3, 1.5).shape) == ((), (), (3,))
    assert {empty(1).dtype, zeros(1).dtype, ones(1).dtype, full(1, 1.0).dtype} == {dtypes.f32}
    assert full(1, 7).dtype is dtypes.i32
    with pytest.raises(errors.ArgumentError, match=r"shape \(-1,\)"):
        empty(-1)


def test_arange_counts_as_numpy_does():
    assert arange(3).tolist() == [0, 1, 2]
    assert arange(1, 2, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert arange(5, 0, -2, dtype="bf16").tolist() == [5.0, 3.0, 1.0]
    assert (arange(3).dtype, arange(3.0).dtype, arange(0).dtype) == (
        dtypes.i32,
        dtypes.f32,
        dtypes.i32,
    )


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_new_memory_is_aligned(size):
    for made in (empty(size, dtype="u8"), arange(size), ones(size).to("f16"), ones(size).clone()):
        assert address(made._array) % 64 == 0


def test_dtypes_are_taken_by_any_name():
    for name in (dtypes.f16, "f16", "half", np.float16, np.dtype("float16")):
        assert empty(1, dtype=name).dtype is dtypes.f16
    with pytest.raises(errors.TypeMismatch, match="there is no dtype named 'f17'"):
        empty(1, dtype="f17")


@pytest.mark.parametrize("name", ["mps", "metal"])
def test_metal_tensors_need_a_metal_backend(name, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    monkeypatch.setenv("EAS_METAL", "")
    monkeypatch.setattr(devices, "_devices", {"cpu": devices.CPU})  # a test before may have opened the fake one
    expected = (
        "there is no Metal device on the interp backend\n"
        '  hint: device="cpu", or EAS_BACKEND=sim for the software Metal'
    )
    for make in (
        lambda: tensor([1], device=name),
        lambda: empty(1, device=name),
        lambda: ones(1).to(name),
    ):
        with pytest.raises(errors.BackendUnavailable) as caught:
            make()
        assert str(caught.value) == expected


def test_metal_tensors_exist_on_the_software_metal(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    if not get_runtime("sim").is_available():
        pytest.skip(str(get_runtime("sim").why_unavailable()))
    made = tensor([1.0, 2.0], device="mps")
    assert made.device == "mps"
    assert list(made.cpu().numpy()) == [1, 2]
    assert made.cpu().device == "cpu"


def test_unknown_devices_are_value_errors():
    with pytest.raises(ValueError, match="there is no device named 'gpu'"):
        tensor([1], "gpu")
    with pytest.raises(UnknownDevice, match="there is no device or dtype named 'gpu'"):
        ones(1).to("gpu")


# --- what a tensor says about itself ------------------------------------------------------------


def test_attributes_count_elements():
    x = zeros(2, 3, 4, dtype="f16")
    assert (x.shape, x.ndim, x.size, x.numel(), len(x)) == ((2, 3, 4), 3, 24, 24, 2)
    assert (x.strides, x.stride(0), x.stride(), x.nbytes) == ((12, 4, 1), 12, (12, 4, 1), 48)
    assert (x.device, x.dtype, x.is_contiguous) == ("cpu", dtypes.f16, True)
    with pytest.raises(TypeError, match="0-d"):
        len(zeros())
    with pytest.raises(TypeError, match="0-d"):
        iter(zeros())


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (tensor([1.5, 2]), "tensor([1.5, 2. ], shape=(2,), dtype=f32, device='cpu')"),
        (tensor(7), "tensor(7, shape=(), dtype=i32, device='cpu')"),
        (empty(0, 2), "tensor([], shape=(0, 2), dtype=f32, device='cpu')"),
        (tensor([True]), "tensor([ True], shape=(1,), dtype=bool, device='cpu')"),
        (tensor([0.1], dtype="bf16"), "tensor([0.10009766], shape=(1,), dtype=bf16, device='cpu')"),
        (
            arange(4).reshape(2, 2),
            "tensor([[0, 1],\n        [2, 3]], shape=(2, 2), dtype=i32, device='cpu')",
        ),
    ],
)
def test_repr_shows_data_shape_dtype_and_device(made, text):
    assert repr(made) == text


def test_repr_of_a_large_tensor_is_short():
    assert "..." in repr(zeros(5000))
    assert len(repr(zeros(5000))) < 200


def test_python_values():
    assert tensor([[2]]).item() == 2
    assert tensor([0.5, 448.0], dtype="f8e4m3").tolist() == [0.5, 448.0]
    assert bool(tensor(0.0)) is False
    assert (int(tensor([3.7])), float(tensor(3))) == (3, 3.0)
    for ask in (Tensor.item, bool, float):
        with pytest.raises(errors.ArgumentError, match=r"one element, this one has 2\n.*tolist"):
            ask(ones(2))


# --- views and copies ---------------------------------------------------------------------------


def test_slices_and_transposes_share_memory():
    x = arange(12).reshape(3, 4)
    for part in (
        x[1],
        x[:, ::2],
        x[..., 0],
        x[None, 1:],
        x[1, 2],
        x[np.int64(1)],
        x.T,
        x.permute(1, 0),
        x.transpose(0, 1),
    ):
        assert np.shares_memory(part._array, x._array)
    assert x[1, 2].shape == ()
    assert x[1, 2].item() == 6
    assert x[..., 0].tolist() == [0, 4, 8]
    assert x[:, ::-2].strides == (4, -2)
    assert (x.T.strides, x.T.is_contiguous) == ((1, 4), False)
    assert zeros(2, 3, 4).permute(2, 0, 1).shape == (4, 2, 3)
    assert [row.tolist() for row in x] == x.tolist()


@pytest.mark.parametrize("index", [True, 1.0, "rows", np.array([0.5]), (slice(None), [0.5])], ids=str)
def test_indices_that_are_none_are_refused(index):
    with pytest.raises(errors.ArgumentError, match="indexed with integers, slices, None, "):
        ones(2, 2)[index]


def test_index_errors_are_index_errors():
    with pytest.raises(IndexError):
        ones(2)[2]


def test_reshape_is_a_view_where_strides_allow_it():
    x = arange(6)
    assert np.shares_memory(x.reshape(2, -1)._array, x._array)
    folded = x.reshape((2, 3)).T.reshape(6)
    assert folded.tolist() == [0, 3, 1, 4, 2, 5]
    assert not np.shares_memory(folded._array, x._array)
    assert empty(0, 3).reshape(3, 0).shape == (3, 0)


def test_contiguous_copies_only_what_is_strided():
    x = arange(6).reshape(2, 3)
    assert x.contiguous() is x
    assert x.T.contiguous().strides == (2, 1)
    assert x.T.contiguous().tolist() == x.T.tolist()
    assert not np.shares_memory(x.clone()._array, x._array)


def test_copy_broadcasts_and_casts():
    x = zeros(2, 2, dtype="bf16")
    assert x.copy_([1, 2.0]) is x
    assert x.tolist() == [[1, 2], [1, 2]]
    x[0].copy_(np.array([5, 6], np.int8))
    assert x.tolist() == [[5, 6], [1, 2]]
    with pytest.raises(errors.ArgumentError, match=r"copy_ cannot fill shape \(2, 2\) from shape \(3,\)(.|\n)*broadcasts"):
        x.copy_([1, 2, 3])
    with pytest.raises(errors.ArgumentError, match="copy_ cannot write a read-only tensor"):
        tensor(readonly(np.zeros(2))).copy_(1)


def test_to_returns_itself_where_nothing_changes():
    x = ones(3)
    assert x.to("cpu") is x
    assert x.to("f32") is x
    assert x.to("cpu", "f16").dtype is dtypes.f16
    assert x.to(device="cpu", dtype=np.int8).tolist() == [1, 1, 1]


def test_to_casts_as_kernels_do():
    assert tensor([-1, 256]).to("u8").tolist() == [255, 0]
    assert tensor([1e10, -2.9, float("nan")]).to("i32").tolist() == [2**31 - 1, -2, 0]
    assert tensor([0, 2]).to("bool").tolist() == [False, True]
    assert tensor(2.5).to("f8e5m2").to("f32").item() == 2.5


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_pickle_keeps_dtype_and_bits(dtype):
    x = ones(2, 3, dtype=dtype).T
    back = pickle.loads(pickle.dumps(x))
    assert (back.dtype, back.shape, back.device) == (dtype, (3, 2), "cpu")
    assert back._array.tobytes() == x._array.tobytes()


# --- NumPy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NATIVE)
def test_numpy_shares_memory_both_ways(dtype):
    a = np.ones((2, 3), dtype.np_storage)
    for x in (tensor(a), from_numpy(a)):
        assert x.dtype is dtype
        assert address(x.numpy()) == address(a)
        x.numpy()[0, 0] = 0
        assert a[0, 0] == 0
        assert address(np.asarray(x)) == address(a)
    strided = tensor(a[:, ::2])
    assert (strided.shape, strided.strides) == ((2, 2), (3, 2))


def test_tensor_of_a_tensor_shares_memory():
    x = ones(3)
    assert tensor(x) is x
    assert tensor(x, dtype="f16").dtype is dtypes.f16


def test_reshaping_the_array_in_place_leaves_the_tensor():
    a = np.zeros(6)
    x = tensor(a)
    a.shape = (2, 3)
    x.numpy().shape = (3, 2)
    assert x.shape == (6,)


def test_memory_lives_as_long_as_either_side():
    class Noted(np.ndarray):
        pass

    a = np.arange(3.0).view(Noted)
    gone = weakref.ref(a)
    x = tensor(a)
    del a
    gc.collect()
    assert gone() is not None
    assert x.tolist() == [0, 1, 2]
    out = x.numpy()
    del x
    gc.collect()
    assert out.tolist() == [0, 1, 2]
    del out
    gc.collect()
    assert gone() is None


def test_read_only_arrays_stay_read_only():
    x = tensor(readonly(np.zeros(2)))
    assert not x.numpy().flags.writeable
    assert x.__eas_view__().readonly
    assert not x[:1].numpy().flags.writeable


def test_array_protocol_follows_numpy_2():
    x = ones(2)
    assert address(np.array(x, copy=False)) == address(x._array)
    assert address(np.array(x)) != address(x._array)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)
    assert np.asarray(ones(2, dtype="bf16"), dtype=np.float64).tolist() == [1, 1]
    with pytest.raises(ValueError, match="cannot share the memory of a bf16 tensor"):
        np.array(ones(2, dtype="bf16"), dtype=np.float32, copy=False)


@pytest.mark.parametrize("dtype", EXTENSION)
def test_numpy_refuses_dtypes_it_lacks(dtype):
    x = ones(2, dtype=dtype)
    for ask in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(errors.TypeMismatch) as caught:
            ask()
        assert str(caught.value) == f'NumPy has no {dtype} arrays\n  hint: x.to("f32").numpy()'
    assert x.to("f32").numpy().tolist() == [1, 1]


def test_from_numpy_takes_arrays_only():
    with pytest.raises(errors.ArgumentError, match="from_numpy takes a NumPy array, got list"):
        from_numpy([1])  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="complex128"):
        tensor(np.zeros(2, complex))


def test_buffers_are_shared():
    memory = bytearray(4)
    tensor(memory).copy_([1, 2, 3, 4])
    assert list(memory) == [1, 2, 3, 4]


def test_kernels_see_the_memory():
    x = arange(6, dtype="bf16").reshape(2, 3)
    seen = view(x, "a")
    assert (seen.name, seen.dtype, seen.shape, seen.device) == ("a", dtypes.bf16, (2, 3), "cpu")
    assert address(seen.array) == address(x._array)
    assert not view(x.T, "a").is_contiguous


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(errors.ArgumentError, match=r"into shape \(5,5\)(.|\n)*hint: this tensor has shape \(2, 3\)"):
        zeros(2, 3).reshape(5, 5)
    with pytest.raises(errors.ArgumentError, match=r"made of integers, got \(2.5,\)"):
        zeros(2.5)
