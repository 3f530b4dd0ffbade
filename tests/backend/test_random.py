"""Random numbers by counter: the published test vectors, plain Python, and the distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.testing import assert_close
from tests.backend.launches import launch, op_names

COVERS = {"philox"}
WORD = 0xFFFFFFFF


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 as in Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & WORD, (p0 >> 32) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return [c0, c1, c2, c3]


# counter, key, result: kat_vectors of the Random123 distribution
KNOWN = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([WORD] * 4, [WORD] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]


@pytest.mark.parametrize(("counter", "key", "want"), KNOWN)
def test_the_judge_knows_the_published_vectors(counter, key, want):
    assert philox(counter, key) == want


@eas.kernel
def philox_kernel(counters, seeds, y, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    words = [mk.load(counters, i * 4 + w, mask) for w in range(4)]
    for w, bits in enumerate(mk.philox(mk.load(seeds, i, mask), *words)):
        mk.store(y, i * 4 + w, bits, mask)


def test_philox_bits_are_the_published_ones(backend):
    rng = np.random.default_rng(0)
    counters = [k[0] for k in KNOWN] + rng.integers(0, 2**32, (30, 4)).tolist()
    keys = [k[1] for k in KNOWN] + rng.integers(0, 2**32, (30, 2)).tolist()
    seeds = np.array([low | high << 32 for low, high in keys], np.uint64)
    y = np.zeros((33, 4), np.uint32)
    args = (np.array(counters, np.uint32), seeds, y, 33)
    launch(backend, philox_kernel, *args, grid=3, BLOCK=16)
    assert "philox" in op_names(philox_kernel, *args, BLOCK=16)
    np.testing.assert_array_equal(y, [philox(c, k) for c, k in zip(counters, keys, strict=True)])


@eas.kernel
def draws_kernel(bits, uniform, normal, seed, first, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < N
    mk.store(bits, i, mk.randint(seed, first + i), mask)
    mk.store(uniform, i, mk.rand(seed, first + i), mask)
    mk.store(normal, i, mk.randn(seed, first + i), mask)


def draws(backend, seed: int, n: int, block: int = 128, first: int = 0):
    bits, uniform, normal = np.zeros(n, np.uint32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    launch(backend, draws_kernel, bits, uniform, normal, seed, first, n, BLOCK=block)
    return bits, uniform, normal


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, -1, 2**40 + 5])
def test_randint_is_the_first_word_of_its_offset(backend, seed):
    bits, uniform, _ = draws(backend, seed, 100)
    key = [seed & WORD, (seed >> 32) & WORD]
    assert bits.tolist() == [philox([i, 0, 0, 0], key)[0] for i in range(100)]
    # Triton's uint_to_uniform_float: fold the sign, scale by just less than 2**-31.
    folded = [w if w < 2**31 else WORD - w for w in bits.tolist()]
    want = np.array(folded, np.int64).astype(np.float32) * np.float32(4.6566127342e-10)
    np.testing.assert_array_equal(uniform, want)


def test_offsets_of_64_bits_count_in_full(backend):
    low, high = 7, 3
    bits = draws(backend, 5, 50, first=(high << 32) + low)[0]
    assert bits.tolist() == [philox([low + i, high, 0, 0], [5, 0])[0] for i in range(50)]


def test_the_block_size_does_not_matter(backend):
    first, second = draws(backend, 3, 300, block=128), draws(backend, 3, 300, block=33)
    for a, b in zip(first[:2], second[:2], strict=True):
        np.testing.assert_array_equal(a, b)
    assert_close(first[2], second[2], "f32")


def test_distributions_have_their_moments(backend):
    n = 4096
    _, uniform, normal = draws(backend, 42, n, block=1024)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    sigma = 1 / math.sqrt(n)
    assert abs(uniform.mean() - 0.5) < 4 * sigma * math.sqrt(1 / 12)
    assert abs(uniform.var() - 1 / 12) < 4 * sigma * math.sqrt(1 / 180)
    assert abs(normal.mean()) < 4 * sigma
    assert abs(normal.var() - 1) < 4 * sigma * math.sqrt(2)
    assert abs((normal**3).mean()) < 4 * sigma * math.sqrt(15)


@eas.kernel
def four_kernel(bits, uniform, normal, seed, N: eas.constexpr):
    i = mk.arange(0, N)
    for w in range(4):
        mk.store(bits, w * N + i, mk.randint4x(seed, i)[w])
        mk.store(uniform, w * N + i, mk.rand4x(seed, i)[w])
        mk.store(normal, w * N + i, mk.randn4x(seed, i)[w])


def test_four_draws_per_offset_use_all_words(backend):
    n = 33
    bits, uniform, normal = np.zeros((4, n), np.uint32), np.zeros((4, n), np.float32), np.zeros((4, n), np.float32)
    launch(backend, four_kernel, bits, uniform, normal, 9, grid=1, N=n)
    np.testing.assert_array_equal(bits.T, [philox([i, 0, 0, 0], [9, 0]) for i in range(n)])
    u = uniform.astype(np.float64)
    for pair in (0, 2):
        radius = np.sqrt(-2 * np.log(np.maximum(u[pair], 1e-7)))
        angle = 2 * math.pi * u[pair + 1]
        np.testing.assert_allclose(normal[pair], radius * np.cos(angle), atol=3e-6)
        np.testing.assert_allclose(normal[pair + 1], radius * np.sin(angle), atol=3e-6)


def test_offsets_and_seeds_must_be_integers(backend):
    @eas.kernel
    def wrong(y):
        mk.store(y, mk.arange(0, 4), mk.rand(0.5, mk.arange(0, 4)))

    with pytest.raises(eas.TypeMismatch, match="the seed must be an integer"):
        wrong.compile(np.zeros(4, dtypes.f32.np_storage))
