"""Random programs without races: every backend leaves what the interpreter leaves in memory, and its sanitizer is silent."""

from __future__ import annotations

import contextlib
import copy
import io
import random
from dataclasses import replace

import numpy as np
import pytest

from eas.base import numerics
from eas.compiler import NO_FACTS, Variant
from eas.ir import IRModule
from eas.passes import optimise
from eas.runtime import get_runtime
from eas.runtime.interp import execute
from eas.schedule.gpu.target import DEFAULT
from eas.testing import ulp_distance
from tests.backend.launches import METAL
from tests.fuzz.random_programs import RaceFreeKernel, grid_of

COUNT = 60


def check(seed: int, backend: str, size: int = 14, passes: tuple[bool, ...] = (False, True)) -> None:
    """Run one random module, before and after the passes; memory is as the interpreter leaves it."""
    kernel, grid = RaceFreeKernel(seed), grid_of(seed)
    module = kernel.module(size)
    given = kernel.arguments(grid)
    want, lines = copy.deepcopy(given), []
    execute(module, want, grid, lines.append)
    rng = random.Random(seed)
    warps, fragment_map = rng.choice((None, None, 1, 2, 4, 8, 16, 32)), rng.choice(("standard", "standard", None))
    hinted = module if warps is None else module.with_attrs(num_warps=warps)
    for is_optimised in passes:
        variant = Variant(module.name, optimise(hinted) if is_optimised else hinted, NO_FACTS)
        if backend in METAL:
            variant._metal[None] = variant.metal_for(replace(DEFAULT, fragment_map=fragment_map))
        args = copy.deepcopy(given)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            get_runtime(backend).run(variant, args, grid)
        compare(module, args, want)
        assert out.getvalue() == "".join(f"{line}\n" for line in lines)


def compare(module: IRModule, got: list[object], want: list[object]) -> None:
    for arg, ours, theirs in zip(module.args, got, want, strict=True):
        if not arg.is_buffer:
            continue
        dtype = arg.type.dtype
        a, b = (numerics.decode(x, dtype) for x in (ours, theirs))
        same = ulp_distance(a, b, dtype) == 0 if dtype.is_float else a == b
        where = np.flatnonzero(~same)
        assert not where.size, f"{arg.name}{where[:5].tolist()} of {where.size}: {a[where[:5]]}, expected {b[where[:5]]}"


@pytest.fixture(autouse=True)
def _sanitized(monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")
    monkeypatch.setenv("EAS_VERIFY", "0")  # as much time again; the passes have their own tests


@pytest.mark.left_out(lambda backend: backend == "interp")  # the judge
@pytest.mark.every_width
@pytest.mark.parametrize("first", range(0, COUNT, 5))
def test_programs_without_races_agree_with_the_interpreter(first, backend):
    # More of them where they look for races, and for what a schedule over threads does wrong.
    for seed in range(first, first + (5 if backend in METAL else 1)):
        try:
            check(seed, backend, size=6, passes=(seed % 2 == 0,))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", [
    211,  # a reduction beside an atomic whose result is used, in threads that share elements
    2109,  # a product without a fragment map whose sum is carried in another layout
    247,  # a store and a load of one element, in threads that share it
])  # fmt: skip
@pytest.mark.left_out(lambda backend: backend not in METAL)  # found in the schedule over threads
def test_what_random_programs_found(seed, backend):
    check(seed, backend)
