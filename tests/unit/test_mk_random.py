"""Random numbers: known philox words, Triton's float conversion, the shape of the distributions."""

from __future__ import annotations

import numpy as np
import pytest

from eas import mk
from eas.base import numerics
from eas.base.errors import TypeMismatch
from tests.unit.mk_kernels import lines_of, refusal, run


def draw(fn, n, out, *scalars):
    def kernel(y, seed, F, N):
        i = mk.arange(N)
        mk.store(y, i, F(seed, i))

    y = np.zeros(n, out)
    run(kernel, y, *scalars, F=fn, N=n)
    return y


def words(seed, offsets):
    u32 = np.uint32
    offsets = np.asarray(offsets)
    low, high = (offsets & 0xFFFFFFFF).astype(u32), (offsets >> 32).astype(u32)
    zero = np.zeros_like(low)
    key = seed & (2**64 - 1)
    return numerics.philox4x32(
        low, high, zero, zero, np.full_like(low, key & 0xFFFFFFFF), np.full_like(low, key >> 32)
    )


@pytest.mark.parametrize("seed", [0, 1234, -5, 2**40 + 7])
def test_randint_is_the_first_philox_word(seed):
    np.testing.assert_array_equal(
        draw(mk.randint, 16, np.uint32, seed), words(seed, np.arange(16))[0]
    )
    for k in range(4):
        np.testing.assert_array_equal(
            draw(lambda s, i, k=k: mk.randint4x(s, i)[k], 16, np.uint32, seed),
            words(seed, np.arange(16))[k],
        )


def test_wide_offsets_count_in_full():
    got = draw(lambda s, i: mk.randint(s, mk.to_i64(i) + 2**33), 8, np.uint32, 3)
    np.testing.assert_array_equal(got, words(3, np.arange(8) + 2**33)[0])


def test_philox_of_random123():
    """The known answers of Random123 for zeros and ones."""
    first = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    for k in range(4):
        assert draw(lambda s, i, k=k: mk.philox(s, i * 0)[k], 1, np.uint32, 0)[0] == first[k]
        assert (
            draw(lambda s, i, k=k: mk.philox(s, -1, -1, -1, i - 1)[k], 1, np.uint32, -1)[0]
            == ones[k]
        )


def test_rand_is_tritons_uniform_float():
    bits = words(42, np.arange(256))[0].view(np.int32)
    want = np.where(bits < 0, -bits - 1, bits).astype(np.float32) * np.float32(4.6566127342e-10)
    got = draw(mk.rand, 256, np.float32, 42)
    np.testing.assert_array_equal(got, want)
    assert got.min() >= 0
    assert got.max() < 1


def test_randn_is_box_muller():
    u1, u2 = (
        draw(lambda s, i: mk.rand4x(s, i)[0], 512, np.float32, 9),
        draw(lambda s, i: mk.rand4x(s, i)[1], 512, np.float32, 9),
    )
    want = np.sqrt(-2 * np.log(np.maximum(u1, 1e-7))) * np.cos(2 * np.pi * u2)
    got = draw(mk.randn, 512, np.float32, 9)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(draw(lambda s, i: mk.randn4x(s, i)[0], 512, np.float32, 9), got)
    assert abs(got.mean()) < 0.15
    assert abs(got.std() - 1) < 0.1


def test_seed_and_offset_may_be_python_numbers():
    def kernel():
        assert mk.rand(5, 3).shape == ()

    lines_of(kernel)


def test_float_seeds_are_refused():
    def kernel():
        mk.rand(0.5, 1)

    assert "the seed must be an integer, got f32" in refusal(TypeMismatch, kernel)
