"""Random kernels as users write them, up to the point where loops over lanes begin: the interpreter judges what the CPU's passes made of them."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.facts import Extent, Fact, holds
from eas.base.types import Space, Type
from eas.frontend.constexpr import Static
from eas.ir import IRModule, verify
from eas.lowering import summarise, trace_kernel
from eas.passes import optimise
from eas.passes.specialise import specialise
from eas.runtime.interp import execute
from eas.schedule.cpu_steps import prepared
from tests.fuzz.random_user_kernels import FAMILIES, UserKernel, user_kernel
from tests.fuzz.test_user_kernels_random import copies
from tests.unit.plain_hooks import load_source

COUNT = 18


def traced(given: UserKernel) -> IRModule:
    fn = load_source(given.source, mk=mk, eas=eas)["kernel"]
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    types: dict[str, Type | Static] = {}
    for name, value in zip(names, given.args, strict=False):
        is_array = isinstance(value, np.ndarray)
        types[name] = Type(dtypes.from_numpy(value.dtype), (), Space.DEVICE) if is_array else Type(dtypes.of_scalar(value))
    types.update({name: Static(value) for name, value in given.meta.items()})
    return trace_kernel(fn, types, "safe").module


def facts_of(module: IRModule, args: list[object]) -> frozenset[Fact]:
    """What holds of a launch, of all that some access of the kernel asks for."""
    summary = summarise(module)
    values = {a.name: v for a, v in zip(module.args, args, strict=True)}
    extents = {n: Extent(0, v.ctypes.data, v.nbytes, v.size) for n, v in values.items() if isinstance(v, np.ndarray)}
    return frozenset(f for f in summary.facts if holds(f, values.get(f.arg), extents, summary.writes))


def outcome(module: IRModule, given: UserKernel) -> list[np.ndarray]:
    args = copies(given.args)
    x, y, z = (*given.grid, 1, 1)[:3]
    execute(module, args, (x, y, z))
    return [a for a in args if isinstance(a, np.ndarray)]


@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("family", range(len(FAMILIES)), ids=[f.__name__ for f in FAMILIES])
def test_what_a_schedule_starts_from_does_what_was_written(family, number):
    given = user_kernel(70_000 + number * len(FAMILIES) + family)
    module = traced(given)
    want = outcome(module, given)
    facts = facts_of(module, given.args)
    optimised = verify(optimise(specialise(module, facts)))
    for form in (optimised, verify(prepared(optimised)), verify(prepared(module))):
        for i, (ours, theirs) in enumerate(zip(outcome(form, given), want, strict=True)):
            where = np.flatnonzero(ours != theirs)[:5]
            assert not where.size, f"buffer {i}{where}: {ours[where]}, expected {theirs[where]}\n{given.source}\n{form}"
