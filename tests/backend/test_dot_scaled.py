"""Products in microscaling formats, against sums in float64 of what the codes stand for."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes, numerics
from tests.backend.launches import launch

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
DTYPES = {"e4m3": dtypes.f8e4m3, "e5m2": dtypes.f8e5m2, "bf16": dtypes.bf16, "fp16": dtypes.f16}
M, N, K = 16, 32, 64


@eas.kernel
def scaled_kernel(
    a, a_scale, b, b_scale, acc, out, M: eas.constexpr, N: eas.constexpr, K: eas.constexpr, SIZES: eas.constexpr,
    FORMATS: eas.constexpr, SCALED: eas.constexpr, PACKED: eas.constexpr, GROUP: eas.constexpr,
):  # fmt: skip
    (ra, ca), (rb, cb) = SIZES
    x = mk.load(a + mk.arange(0, ra)[:, None] * ca + mk.arange(0, ca)[None, :])
    y = mk.load(b + mk.arange(0, rb)[:, None] * cb + mk.arange(0, cb)[None, :])
    groups = mk.arange(0, K // GROUP)[None, :]
    left = mk.load(a_scale + mk.arange(0, M)[:, None] * (K // GROUP) + groups) if SCALED[0] else None
    right = mk.load(b_scale + mk.arange(0, N)[:, None] * (K // GROUP) + groups) if SCALED[1] else None
    at = mk.arange(0, M)[:, None] * N + mk.arange(0, N)[None, :]
    mk.store(out + at, mk.dot_scaled(x, left, FORMATS[0], y, right, FORMATS[1], mk.load(acc + at), lhs_k_pack=PACKED[0], rhs_k_pack=PACKED[1]))


def matrix(rng, rows, cols, form, axis):
    """Codes in memory, and the numbers that they stand for."""
    if form == "e2m1":
        codes = rng.integers(0, 16, (rows, cols), np.uint8)
        low, high = (codes[::2], codes[1::2]) if axis == 0 else (codes[:, ::2], codes[:, 1::2])
        return np.ascontiguousarray(low | high << 4), E2M1[codes]
    dtype = DTYPES[form]
    values = numerics.round_to(rng.standard_normal((rows, cols)).astype(np.float32), dtype)
    return numerics.encode(values.astype(dtype.np_compute), dtype).view(f"u{dtype.nbytes}"), values.astype(np.float64)


def check(backend, formats, scaled, packed=(True, True), group=32, scale_dtype=np.uint8):
    rng = np.random.default_rng(len(formats[0]) + 3 * len(formats[1]) + sum(scaled))
    x, left = matrix(rng, M, K, formats[0], 1 if packed[0] else 0)
    y, right = matrix(rng, K, N, formats[1], 0 if packed[1] else 1)
    scales = [rng.integers(120, 134, (n, K // group)).astype(scale_dtype) for n in (M, N)]
    factors = [2.0 ** (s.astype(float) - 127) if scale_dtype is np.uint8 else s.astype(float) for s in scales]
    if scaled[0]:
        left = left * np.repeat(factors[0], group, 1)
    if scaled[1]:
        right = right * np.repeat(factors[1], group, 1).T
    acc, out = rng.standard_normal((M, N)).astype(np.float32), np.zeros((M, N), np.float32)
    launch(
        backend, scaled_kernel, x, scales[0], y, scales[1], acc, out, grid=1, M=M, N=N, K=K, SIZES=(x.shape, y.shape), FORMATS=formats,
        SCALED=scaled, PACKED=packed, GROUP=group,
    )  # fmt: skip
    want = acc + left @ right
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5 * np.abs(left).max() * np.abs(right).max())


@pytest.mark.parametrize("formats", [("e2m1", "e2m1"), ("e4m3", "bf16"), ("e5m2", "e4m3"), ("fp16", "e2m1"), ("e2m1", "e5m2")], ids="-".join)
def test_every_format_and_scale(backend, formats):
    check(backend, formats, (True, True))
    check(backend, formats, (formats[0] != "fp16", formats[0] == "fp16"))


def test_pairs_are_packed_along_any_axis(backend):
    check(backend, ("e2m1", "e2m1"), (True, True), packed=(False, False))


def test_groups_of_other_sizes_and_factors_as_floats(backend):
    check(backend, ("e2m1", "e4m3"), (True, True), group=16, scale_dtype=np.float32)


@eas.kernel
def codes_kernel(codes, scales, out):
    """One number of each code, times the scale of each code."""
    i = mk.arange(0, 256)
    one = mk.reshape(mk.where(i < 16, 1.0, 1.0), [256, 1])
    ones = mk.broadcast_to(one, [256, 32]).to(mk.bf16)
    unit = mk.broadcast_to(mk.where(mk.arange(0, 32)[:, None] == 0, 1.0, 0.0), [32, 16]).to(mk.bf16)
    row = mk.dot_scaled(ones, mk.load(scales + i[:, None]), "bf16", unit, None, "bf16")
    mk.store(out + i[:, None] * 16 + mk.arange(0, 16)[None, :], row)


def test_scales_are_powers_of_two_and_the_last_is_nan(backend):
    out = np.zeros((256, 16), np.float32)
    launch(backend, codes_kernel, np.zeros(1, np.uint8), np.arange(256, dtype=np.uint8), out, grid=1)
    first = 0 if backend not in ("sim", "mps") else 1  # Metal may flush what is below the normal numbers
    np.testing.assert_array_equal(out[first:255, 0], 2.0 ** (np.arange(first, 255) - 127.0))
    assert np.isnan(out[255]).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lhs_format": "e3m2"}, "mk.dot_scaled got lhs_format='e3m2'; it takes 'e2m1', 'e4m3'"),
        ({"lhs_format": "bf16"}, "dot_scaled got u8[16,32] for bf16"),
        ({"lhs_format": "e4m3", "lhs_k_pack": False}, "dot_scaled packs only e2m1 along another axis than k, not e4m3"),
        ({"lhs_format": "e4m3"}, "dot_scaled of [16, 32] and [64, 16]"),
        ({"lhs_scale": (8, 2)}, "lhs_scale of dot_scaled has shape [8, 2]"),
    ],
)
def test_refusals(monkeypatch, arguments, text):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    given = {"lhs_scale": (16, 2), "lhs_format": "e2m1", "rhs_scale": None, "rhs_format": "e4m3", **arguments}

    @eas.kernel
    def k(out):
        scale = mk.full(given["lhs_scale"], 127, mk.u8)
        options = {key: value for key, value in given.items() if key != "lhs_scale"}
        c = mk.dot_scaled(mk.full([16, 32], 1, mk.u8), scale, rhs=mk.full([64, 16], 1, mk.u8), **options)
        mk.store(out, 0, mk.sum(c))

    with pytest.raises(eas.EasError) as caught:
        k(np.zeros(1, np.float32), _grid=1)
    assert text in str(caught.value)
