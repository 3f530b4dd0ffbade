"""The element types and their promotion, judged by NumPy and torch where those agree with us."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from eas.base import dtypes as dt
from eas.base.dtypes import DType, Kind
from eas.base.errors import ArgumentError, TypeMismatch

INTS = [d for d in dt.ALL if d.is_int]
FP8 = [dt.f8e4m3, dt.f8e5m2]
ARITHMETIC = [d for d in dt.ALL if d not in FP8]
TORCH = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip


def promoted(a: DType, b: DType) -> DType | None:
    try:
        return dt.promote(a, b)
    except TypeMismatch:
        return None


@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_members_are_singletons(d):
    assert pickle.loads(pickle.dumps(d)) is d
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d
    assert dt.parse(d.name) is d
    assert str(d) == repr(d) == f"{d}" == d.name
    assert not hasattr(d, "__dict__")
    assert {d: 1}[d] == 1


def test_members_are_frozen():
    with pytest.raises(AttributeError):
        dt.f32.bits = 64  # type: ignore[misc]


@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_storage_has_the_width_of_the_type(d):
    assert d.np_storage.itemsize == d.nbytes == d.bits // 8
    assert d.np_compute.itemsize >= d.nbytes
    assert d.is_bool + d.is_int + d.is_float == 1


def test_float_formats_have_the_known_limits():
    for d in (dt.f16, dt.f32, dt.f64):
        info = np.finfo(d.np_compute)
        assert (d.max_finite, d.mantissa_bits) == (float(info.max), info.nmant)
        assert 2.0 ** (1 - d.bias) == float(info.smallest_normal)
    assert dt.f8e4m3.max_finite == 448
    assert dt.f8e5m2.max_finite == 57344
    assert dt.bf16.max_finite == float(np.uint32(0x7F7F0000).view(np.float32))


@pytest.mark.parametrize("d", INTS, ids=str)
def test_integer_limits_are_those_of_numpy(d):
    info = np.iinfo(d.np_compute)
    assert (d.min, d.max) == (info.min, info.max)
    assert d.is_signed == (d.kind is Kind.SIGNED)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("float32", dt.f32), ("float", dt.f32), ("int32", dt.i32), ("half", dt.f16),
        ("bfloat16", dt.bf16), ("float8_e4m3fn", dt.f8e4m3), ("float8_e5m2", dt.f8e5m2),
        ("uint8", dt.u8), ("double", dt.f64), ("bool_", dt.bool_), ("long", dt.i64),
    ],
)  # fmt: skip
def test_parse_knows_aliases(name, want):
    assert dt.parse(name) is want


def test_parse_lists_the_names_when_unknown():
    with pytest.raises(TypeError, match=r"no dtype named 'complex64'\n  hint: use one of bool, i8"):
        dt.parse("complex64")


def test_from_numpy_covers_every_native_type():
    for d in ARITHMETIC:
        if d is not dt.bf16:
            assert dt.from_numpy(d.np_storage) is d
    assert dt.from_numpy(np.dtype(np.longlong)) is dt.i64
    assert dt.from_numpy(np.float32) is dt.f32


class FakeDtype:
    """What is visible of a dtype that ml_dtypes registers."""

    isnative, kind = True, "V"

    def __init__(self, name: str) -> None:
        self.name = name


def test_from_numpy_knows_ml_dtypes_by_name(monkeypatch):
    monkeypatch.setattr(dt, "np", types.SimpleNamespace(dtype=lambda d: d))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        fake: Any = FakeDtype(name)
        assert dt.from_numpy(fake) is dt.parse(name)


@pytest.mark.parametrize("spec", ["complex64", "U4", "O", "S3", "M8[s]", "V4", "longdouble"])
def test_from_numpy_refuses_with_a_hint(spec):
    with pytest.raises(ArgumentError, match="kernels cannot take NumPy dtype") as caught:
        dt.from_numpy(np.dtype(spec))
    assert caught.value.hint


def test_from_numpy_refuses_foreign_byte_order():
    with pytest.raises(ArgumentError, match=r"'>f4' are not in this machine's byte order\n.*'<f4'"):
        dt.from_numpy(np.dtype(">f4"))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, dt.bool_), (np.bool_(False), dt.bool_), (0, dt.i32), (2**31 - 1, dt.i32),
        (-(2**31), dt.i32), (2**31, dt.i64), (-(2**63), dt.i64), (2**63, dt.u64),
        (2**64 - 1, dt.u64), (np.int8(3), dt.i32), (np.uint64(3), dt.i32), (np.int64(2**40), dt.i64),
        (np.uint32(2**32 - 1), dt.i64), (1.5, dt.f32), (np.float64(1), dt.f32), (np.float16(1), dt.f32),
    ],
)  # fmt: skip
def test_scalar_arguments_take_their_type_by_value(value, want):
    assert dt.of_scalar(value) is want


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 1j, "1", None, np.zeros(())])
def test_scalar_arguments_of_other_kinds_are_refused(value):
    with pytest.raises(ArgumentError):
        dt.of_scalar(value)


def test_promote_commutes():
    for a, b in itertools.product(dt.ALL, repeat=2):
        assert promoted(a, b) is promoted(b, a)


def test_promote_is_an_associative_join_where_defined():
    for a, b, c in itertools.product(ARITHMETIC, repeat=3):
        ab, bc = promoted(a, b), promoted(b, c)
        if ab is None or bc is None:
            continue
        left, right = promoted(ab, c), promoted(a, bc)
        # u64 stays apart from the signed ints, which mixed smaller ints can become on the way.
        if left is not None and right is not None:
            assert left is right, (a, b, c)
        else:
            assert dt.u64 in (a, b, c)
        assert promoted(ab, a) is ab
        assert dt.promote(a, a) is a


def test_promote_agrees_with_numpy_within_a_family():
    # NumPy widens ints that meet floats, and has no bf16.
    known = [d for d in ARITHMETIC if d is not dt.bf16]
    for a, b in itertools.product(known, repeat=2):
        if a.is_float != b.is_float and dt.bool_ not in (a, b):
            continue
        want = np.result_type(a.np_compute, b.np_compute)
        got = promoted(a, b)
        assert want == (np.float64 if got is None else got.np_compute), (a, b)


def test_promote_agrees_with_torch():
    torch = pytest.importorskip("torch")
    # torch does not promote wide unsigned ints and fp8.
    for a, b in itertools.product(map(dt.parse, TORCH), repeat=2):
        left, right = (torch.empty(1, dtype=getattr(torch, TORCH[d.name])) for d in (a, b))
        want = torch.result_type(left, right)
        assert want is getattr(torch, TORCH[dt.promote(a, b).name]), (a, b)


def test_promote_refuses_u64_with_signed():
    with pytest.raises(TypeMismatch, match=r"u64 and i64 have no common type\n  hint: cast one"):
        dt.promote(dt.u64, dt.i64)


@pytest.mark.parametrize("f8", FP8, ids=str)
def test_fp8_is_storage_only(f8):
    calls: list[Callable[[], DType]] = [partial(dt.promote, f8, d) for d in dt.ALL]
    calls += [partial(dt.promote_weak, f8, v) for v in (True, 1, 1.0)]
    calls += [partial(dt.div_type, f8), partial(dt.common, f8, dt.f32)]
    for call in calls:
        with pytest.raises(TypeMismatch, match=r"is a storage type: cast it"):
            call()
    assert dt.common(f8, f8) is f8


def test_common_is_promote_for_different_types():
    assert dt.common(dt.u8, dt.i8) is dt.i16
    assert dt.common(dt.f16, dt.bf16) is dt.f32


@pytest.mark.parametrize("d", ARITHMETIC, ids=str)
def test_weak_numbers_take_the_type_of_the_other_operand(d):
    assert dt.promote_weak(d, True) is d
    assert dt.promote_weak(d, 1) is (dt.i32 if d.is_bool else d)
    assert dt.promote_weak(d, 1.0) is (d if d.is_float else dt.f32)
    assert dt.div_type(d) is (d if d.is_float else dt.f32)


def test_weak_numbers_agree_with_torch():
    torch = pytest.importorskip("torch")
    for d, value in itertools.product(map(dt.parse, TORCH), (True, 1, 1.5)):
        if d.is_bool and type(value) is int:
            continue  # i64 there, i32 here
        x = torch.empty(1, dtype=getattr(torch, TORCH[d.name]))
        want = torch.result_type(x, value)
        assert want is getattr(torch, TORCH[dt.promote_weak(d, value).name]), (d, value)


@pytest.mark.parametrize("d", INTS, ids=str)
def test_weak_ints_must_fit(d):
    assert dt.promote_weak(d, d.min) is d
    assert dt.promote_weak(d, d.max) is d
    for value in (d.min - 1, d.max + 1):
        with pytest.raises(TypeMismatch, match="does not fit"):
            dt.promote_weak(d, value)


def test_weak_int_that_does_not_fit_says_what_to_do():
    with pytest.raises(
        TypeMismatch, match=r"300 does not fit u8\n  hint: cast the u8 operand to i32"
    ):
        dt.promote_weak(dt.u8, 300)


def test_weak_defaults():
    values = [True, 1, 2**31, 2**63, 1.0]
    assert [dt.weak_default(v) for v in values] == [dt.bool_, dt.i32, dt.i64, dt.u64, dt.f32]
    assert dt.promote_weak(dt.bool_, 2**40) is dt.i64
    with pytest.raises(TypeMismatch):
        dt.weak_default(2**64)


def test_import_needs_only_numpy():
    code = (
        "import sys, eas.base.numerics;"
        "assert not {'torch', 'ml_dtypes', 'fractions', 'hypothesis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_promotion_notes_are_sentences():
    assert all(note.endswith(".") for note in dt.PROMOTION_NOTES)


# --- NumPy and torch ----------------------------------------------------------------------------


NUMPYS = [d for d in dt.ALL if d.np_storage == d.np_compute]
NO_NUMPY = [d for d in dt.ALL if d not in NUMPYS]


@pytest.mark.parametrize("ours", NUMPYS, ids=str)
def test_numpys_dtype_and_its_class_are_equal_from_both_sides(ours):
    theirs = np.dtype(ours.np_storage.name)
    for other in (theirs, theirs.type):
        assert ours == other
        assert other == ours
    assert hash(ours) == hash(theirs)
    assert {theirs: "found"}[ours] == {ours: "found"}[theirs] == "found"
    assert np.dtype(ours) is theirs
    assert np.zeros(3, dtype=ours).dtype is theirs
    assert [d for d in NUMPYS if d == theirs] == [ours]


def test_only_the_same_numbers_are_equal():
    for other in (np.dtype(">f4"), np.dtype("c8"), np.dtype("U3"), np.dtype([("a", "f4")]), np.floating, np.generic, float, "f32", None, 32):
        assert dt.f32 != other
        assert other != dt.f32
    assert dt.i64 == np.longlong == dt.i64
    assert dt.bf16 != np.uint16
    assert np.dtype("uint16") != dt.bf16
    assert dt.f8e4m3 != np.uint8


@pytest.mark.parametrize("ours", NO_NUMPY, ids=str)
def test_numpy_is_told_why_it_has_no_such_dtype(ours):
    with pytest.raises(TypeMismatch, match=f"NumPy has no dtype for {ours}") as caught:
        np.dtype(ours)
    assert caught.value.hint.startswith('x.to("f32")')


def test_extension_dtypes_are_equal_by_name():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert dt.bf16 == ml_dtypes.bfloat16
    assert np.dtype(ml_dtypes.bfloat16) == dt.bf16


@pytest.mark.parametrize("ours", dt.ALL, ids=str)
def test_torchs_dtype_is_equal_from_both_sides(ours):
    torch = pytest.importorskip("torch")
    names = TORCH | {"u16": "uint16", "u32": "uint32", "u64": "uint64", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
    theirs = getattr(torch, names[ours.name])
    assert ours == theirs
    assert theirs == ours
    assert [d for d in dt.ALL if d == theirs] == [ours]
    assert ours != torch.complex64
    assert ours != torch.strided


def test_comparing_dtypes_imports_no_torch():
    code = "import sys, numpy as np, eas; assert eas.dtypes.f32 == np.float32 and eas.dtypes.f32 != 'x'; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_foreign_dtypes_are_taken_in_kernels_and_annotations():
    import eas
    from eas import mk

    @eas.kernel
    def cast_kernel(x: mk.ptr(np.float32), out, scale: np.float64, DT: eas.constexpr):
        i = mk.arange(0, 4)
        v = mk.cast(mk.load(x, i), DT)
        assert v.dtype == np.float64
        mk.store(out, i, v * scale)

    x, out = np.arange(4, dtype=np.float32), np.zeros(4)
    foreign = [np.float64, np.dtype("float64")]
    if "torch" in sys.modules:
        foreign.append(sys.modules["torch"].float64)
    for dtype in foreign:
        cast_kernel(x, out, 0.1, DT=dtype, _grid=1)
        assert (out == x.astype(np.float64) * 0.1).all()
    with pytest.raises(ArgumentError, match=r"annotated mk.ptr\(mk.f32\), got a buffer of f64"):
        cast_kernel(out, out, 0.1, DT=np.float64, _grid=1)
    t = eas.zeros(3, dtype=np.dtype("int16"))
    assert t.dtype == np.int16
    assert t.to(np.float32).dtype == np.float32
