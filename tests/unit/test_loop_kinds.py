"""Every nest finds loops: the tables of kinds end with one that always fits, and all combinations of features are lowered."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.facts import Fact
from eas.ir import verify
from eas.schedule.cpu.loops.along import ALONG
from eas.schedule.cpu.loops.around import AROUND
from eas.schedule.cpu.loops.inside import INSIDE
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, AVX512, NEON
from tests.unit.plain_hooks import load_source

MASKS = ("True", "c < n", "(c >= low) & (c < n)", "(r + 1 >= 0) & (r + 1 < low) & (c - 1 >= 0) & (c - 1 < n)", "(c < n) & (mk.load(x + c) > 0)", "(c % w < 3) & (c < n)")
PLACES = ("r * n + c", "(r * 64 + c) // w * n + (r * 64 + c) % w", "(r + c) * 2", "c * n + r")
WORKS = {
    "store": "mk.store(out + {place}, v + 1, mask={mask})",
    "slot": "mk.store(out + {place}, v - mk.max(v, axis=AXIS, keep_dims=True), mask={mask})",
    "sum": "mk.store(out + mk.program_id(0), mk.sum(v))",
    "extreme": "mk.store(out + mk.program_id(0), mk.max(v))",
    "place": "mk.store(out + mk.program_id(0), mk.argmax(v).to(v.dtype))",
    "rows": "mk.store(out + mk.arange(0, R), mk.sum(v, axis=1))",
    "columns": "mk.store(out + mk.arange(0, C), mk.sum(v, axis=0))",
    "argmax": "mk.store(out + {place}, v + mk.argmax(v, axis=AXIS, keep_dims=True).to(v.dtype), mask={mask})",
    "scan": "mk.store(out + {place}, mk.cumsum(v, axis=AXIS), mask={mask})",
    "atomic": "mk.atomic_add(out + {place}, v, mask={mask})",
    "taps": "acc = v * 0\n    for k in range(low):\n        acc += mk.load(x + {place} + k, mask={mask})\n    mk.store(out + {place}, acc, mask={mask})",
    "two stores": "mk.store(out + {place}, v, mask={mask})\n    mk.store(x + {place}, v * 2, mask={mask})",
}
SHAPES = ((1, 4), (1, 64), (1, 16384), (8, 32))
COUNT, SEED = 96, 12  # with which each kind is met
DTYPES = (np.float32, np.uint8, np.int64)


def modules():
    """Some of the few thousand combinations, as texts and as modules."""
    everything = list(itertools.product(MASKS, PLACES, WORKS, SHAPES, DTYPES))
    for mask, place, work, (rows, columns), dtype in random.Random(SEED).sample(everything, COUNT):
        lines = ["r, c = mk.arange(0, R)[:, None], mk.arange(0, C)[None, :]", f"mask = {mask}", f"v = mk.load(x + {place}, mask={'None' if mask == 'True' else 'mask'})"]
        if rows == 1:
            lines[0] = "r, c = mk.program_id(0), mk.arange(0, C)"
            if work in ("rows", "columns"):
                continue
        made = WORKS[work].format(place=place, mask="None" if mask == "True" else "mask").replace("AXIS", "0" if rows == 1 else "1")
        source = "def kernel(x, out, n, low, w, R: eas.constexpr, C: eas.constexpr):\n" + "".join(f"    {line}\n" for line in [*lines, made])
        kernel = eas.kernel(load_source(source, mk=mk, eas=eas)["kernel"])
        a = np.zeros(8, dtype)
        compiled = kernel.compile(a, a.copy(), 70, 3, 9, R=rows, C=columns)
        yield source, compiled.variant(frozenset([Fact("disjoint")])).module


def test_the_last_kind_of_each_table_always_fits():
    for table, last in ((AROUND, "rows"), (ALONG, "parts"), (INSIDE, "plain")):
        *_, (name, plan) = table.items()
        assert name == last
        assert plan(None, None) is not None, "it does not even look at the nest"


def test_all_combinations_of_features_are_lowered(monkeypatch):
    seen = set()

    def noting(name, plan):
        def wrapped(nest, given):
            emit = plan(nest, given)
            seen.update(() if emit is None else [name])
            return emit

        return wrapped

    for table in (AROUND, ALONG, INSIDE):
        for name, plan in table.items():
            monkeypatch.setitem(table, name, noting(name, plan))
    targets = itertools.cycle((AVX2, AVX2, AVX512, NEON))
    for source, module in modules():
        try:
            verify(schedule(module, next(targets)))
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {error}\n{source}")
    assert seen == {*AROUND, *ALONG, *INSIDE}
