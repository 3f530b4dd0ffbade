"""Random kernels after every step of both schedules: the interpreter leaves in memory what it left before the step.

`FUZZ_KERNELS=1000 python -m pytest tests/fuzz/test_steps_random.py` runs more of them than the suite does.
"""

from __future__ import annotations

import copy
import os
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import numerics
from eas.ir import make, walk
from eas.ir.rewriting import rewrite
from eas.ops import TABLE, Trait
from eas.passes import optimise
from eas.passes.steps import Step, observing, run_steps
from eas.runtime.interp import execute
from eas.schedule.cpu_steps import CPU_STEPS, CpuRecord, schedule
from eas.schedule.gpu.target import DEFAULT
from eas.schedule.gpu_steps import schedule_metal
from eas.schedule.target import AVX2, AVX512, NEON
from tests.fuzz.random_programs import RaceFreeKernel, grid_of
from tests.fuzz.random_regions import PROGRAMS, BlockWriter
from tests.fuzz.random_thread_regions import ThreadWriter
from tests.fuzz.random_user_kernels import FAMILIES, user_kernel
from tests.fuzz.test_user_kernels_random import copies
from tests.unit.plain_hooks import load_source

COUNT = int(os.environ.get("FUZZ_KERNELS", "0"))  # of each kind; 0: few of each
TARGETS = (AVX2, AVX512, NEON)


class Difference(AssertionError):
    """A step that changed what a kernel does."""


def check_steps(module, run_schedule, run):
    """Run the module before and after each step that changes it; name the step that changes a result, and how. Returns the names of all ops met."""
    want, texts, met = run(module), [str(module)], set()

    def compare(seen):
        if not seen.changed or (text := str(seen.module)) == texts[-1]:
            return
        texts.append(text)
        met.update(inst.op.name for inst in walk(seen.module.body))
        try:
            got = run(seen.module)
        except Exception as error:
            raise Difference(f"after {seen.name}: {type(error).__name__}: {error}") from error
        for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
            where = np.flatnonzero((ours != theirs) & ~((ours != ours) & (theirs != theirs)))
            if where.size:
                raise Difference(f"after {seen.name}: buffer {i}{where[:5].tolist()} of {where.size} is {ours[where[:5]]}, it was {theirs[where[:5]]}")

    with observing(compare):
        run_schedule(module)
    return met


def cpu(seed):
    return lambda module: schedule(module, TARGETS[seed % len(TARGETS)])


def metal(seed):
    warps = random.Random(seed).choice((None, None, 1, 2, 4))
    return lambda module: schedule_metal(module, DEFAULT, num_warps=None if module.mode == "thread" else warps)


SCHEDULES = {"cpu": cpu, "metal": metal}


def compiled(source, args, meta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eas.KernelWarning)
        return eas.kernel(load_source(source, mk=mk, eas=eas)["kernel"]).compile(*args, **meta).ir


def without_aliases(module):
    """The module as a launch with buffers that do not share memory specialises it."""
    return replace(module, args=tuple(replace(a, attrs=(*a.attrs, ("noalias", True))) if a.is_buffer else a for a in module.args))


def are_apart(args):
    owners = [id(a if a.base is None else a.base) for a in args if isinstance(a, np.ndarray)]
    return len(set(owners)) == len(owners)


def buffers(args):
    """The arrays among arguments."""
    return [a for a in args if isinstance(a, np.ndarray)]


def check_user(seed, where):
    """A kernel of a kind that users write; on the CPU every other one with stores past the cache."""
    given = user_kernel(seed)
    grid = (*given.grid, 1, 1)[:3]

    def run(module):
        args = copies(given.args)
        execute(module, args, grid, streams=seed % 2 == 1)
        return buffers(args)

    module = compiled(given.source, given.args, given.meta)
    check_steps(without_aliases(module) if are_apart(given.args) and seed % 4 else module, SCHEDULES[where](seed), run)


def check_regions(seed, where):
    """Branches and loops that mostly do not run."""
    given = (BlockWriter if seed % 4 else ThreadWriter)(seed).kernel()

    def run(module):
        args = copy.deepcopy(given.args)
        execute(module, args, (PROGRAMS, 1, 1), lambda line: None)
        return buffers(args)

    check_steps(compiled(given.source, given.args, {}), SCHEDULES[where](seed), run)


def check_programs(seed, where):
    """Any ops of the table, without races."""
    kernel, grid = RaceFreeKernel(seed), grid_of(seed)
    module = kernel.module(6)
    given = kernel.arguments(grid)

    def run(module):
        args, lines = copy.deepcopy(given), []
        execute(module, args, grid, lines.append, streams=seed % 2 == 1)
        memory = [numerics.decode(x, arg.type.dtype) for x, arg in zip(args, module.args, strict=True) if arg.is_buffer]
        return [*(np.where(np.isnan(m), np.inf, m) if m.dtype.kind == "f" else m for m in memory), np.array(lines)]

    check_steps(optimise(module), SCHEDULES[where](seed), run)


KINDS = {"user": (check_user, len(FAMILIES)), "regions": (check_regions, 4), "programs": (check_programs, 4)}


@pytest.mark.parametrize("where", SCHEDULES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_step_changes_what_a_kernel_does(kind, where, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    monkeypatch.setenv("EAS_VERIFY", "0")  # the interpreter verifies what it runs
    check, few = KINDS[kind]
    for seed in range(COUNT or few):
        try:
            check(seed, where)
        except eas.Unsupported:
            if where == "cpu":
                raise
        except Exception as error:
            error.add_note(f"{kind} {seed} on {where}")
            raise


def test_a_step_that_is_wrong_is_named_with_the_first_difference():
    def store_sevens(module, record):
        """All stores write 7."""

        def rule(inst, rw):
            if inst.op.name != "vstore":
                return None
            rw.append(make("vstore", [inst.operands[0], rw.const(7, inst.operands[1].type), *inst.operands[2:]], dict(inst.attrs)))
            return ()

        return rewrite(module, rule)

    x = np.arange(100, dtype=np.float32)
    source = "def kernel(x, y, n, BLOCK: eas.constexpr):\n    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)\n    mk.store(y + i, mk.load(x + i, mask=i < n) + 1, mask=i < n)\n"
    module = compiled(source, (x, x, 100), {"BLOCK": 64})

    def run(module):
        args = [x.copy(), np.zeros(128, np.float32), 100]
        execute(module, args, (2, 1, 1))
        return buffers(args)

    steps = (*CPU_STEPS, Step("store_sevens", store_sevens))
    with pytest.raises(Difference, match=r"after store_sevens: buffer 1\[0, 1, 2, 3, 4\] of 99 is \[7. 7. 7. 7. 7.\], it was \[1. 2. 3. 4. 5.\]"):
        check_steps(module, lambda m: run_steps(steps, m, CpuRecord(AVX512)), run)


def test_every_scheduled_op_has_a_reference():
    assert [op.name for op in TABLE.values() if op.has(Trait.SCHEDULED) and op.reference is None] == []
