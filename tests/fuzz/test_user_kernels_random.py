"""Random kernels of the kinds that users write: every backend leaves what the interpreter leaves in memory."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.schedule.target import CpuTarget
from tests.backend.launches import METAL, REFUSALS
from tests.fuzz.random_user_kernels import (
    FAMILIES,
    counts,
    elementwise,
    folds,
    rows_in_pieces,
    user_kernel,
    walks,
)
from tests.unit.plain_hooks import load_source

COUNT = 60
OTHER_SIZES = 3  # launches of the same code


def copies(args):
    """Copies that share what the arguments share, at the same alignment."""
    made = {}

    def copy(a):
        owner = a if a.base is None else a.base
        whole = made.setdefault(id(owner), aligned_copy(owner))
        first = (a.ctypes.data - owner.ctypes.data) // a.itemsize
        return whole[first : first + a.size]

    return [copy(a) if isinstance(a, np.ndarray) else a for a in args]


def aligned_copy(a):
    line = 64 // a.itemsize
    memory = np.zeros(a.size + line, a.dtype)
    copy = memory[(a.ctypes.data - memory.ctypes.data) // a.itemsize % line :][: a.size]
    copy[:] = a
    return copy


def check(seed, monkeypatch, backend):
    """Two launches each, the second takes the path of a repeated launch; then some with smaller sizes."""
    given = user_kernel(seed)
    want = run(given, "interp", monkeypatch)
    try:
        got = run(given, backend, monkeypatch, warps=(None, 1, 2, 4, 8)[seed % 5] if backend in METAL else None)
    except eas.Unsupported as refusal:
        if backend not in METAL or not REFUSALS.search(refusal.message):
            raise
        return
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        where = np.flatnonzero(ours != theirs)[:5]
        assert not where.size, f"seed {seed}, {given.meta}, buffer {i}{where}: {ours[where]}, expected {theirs[where]}\n{given.source}"


def run(given, backend, monkeypatch, warps=None):
    """The buffers afterwards, of both launches one after the other; on Metal with some number of simdgroups, unless threads say theirs."""
    monkeypatch.setenv("EAS_BACKEND", backend)
    kernel = eas.kernel(load_source(given.source, mk=mk, eas=eas)["kernel"])
    found = []
    for args in map(copies, (given.args, given.args, *given.smaller(OTHER_SIZES))):
        kernel[given.grid](*args, **given.meta, **({"num_warps": warps} if warps and "mk.tid" not in given.source else {}))
        found += [a for a in args if isinstance(a, np.ndarray)]
    return found


@pytest.mark.left_out(lambda backend: backend == "interp")  # the judge
@pytest.mark.every_width
@pytest.mark.parametrize("first", range(0, COUNT, len(FAMILIES)))
def test_user_kernels_agree_with_the_interpreter(first, backend, monkeypatch):
    seeds = range(first, first + len(FAMILIES))  # one of each
    for seed in [seeds[first // len(FAMILIES) % len(FAMILIES)]] if backend in METAL else seeds:
        check(seed, monkeypatch, backend)


@pytest.mark.parametrize("first", range(COUNT, 2 * COUNT, len(FAMILIES)))
def test_stores_past_the_cache_agree_with_the_interpreter(first, monkeypatch):
    """The same where every output counts as large, on the CPU, which alone has such stores."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("EAS_CACHE", "0")
    monkeypatch.setattr(CpuTarget, "stream_nbytes", 0)
    for seed in range(first, first + len(FAMILIES)):
        check(seed, monkeypatch, "cpu")


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(("family", "count"), [(folds, 8), (walks, 8), (rows_in_pieces, 4), (elementwise, 4), (counts, 3)], ids=lambda f: getattr(f, "__name__", ""))
def test_more_of_the_cheap_families(family, count, part, monkeypatch):
    """Of these forms there are the most: which axis, how a row is cut, where masks end, what comes of the lanes behind them."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("EAS_CACHE", "0")
    monkeypatch.setenv("EAS_VERIFY", "0")
    for number in range(part * count, part * count + count):
        check(2 * COUNT + number * len(FAMILIES) + FAMILIES.index(family), monkeypatch, "cpu")
