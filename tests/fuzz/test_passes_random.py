"""Random modules: no pass changes what a kernel does, bit for bit."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from eas.ir import IRModule, verify
from eas.ir.text import parse_module, print_module
from eas.passes import optimise, pipeline
from eas.runtime.interp import execute
from tests.fuzz.random_ir import RandomKernel

SEEDS = range(200)
GRID = (2, 1, 1)


def outcome(module: IRModule, args: list[object]) -> tuple[list[str], list[bytes]]:
    """What a launch prints and what it leaves in memory; all NaNs count as one."""
    lines: list[str] = []
    args = copy.deepcopy(args)  # deepcopy keeps two arguments one array if they are
    execute(module, args, GRID, lines.append)
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    return lines, [_one_nan(a).tobytes() for a in arrays]


def _one_nan(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("seed", SEEDS)
def test_text_of_a_random_module_reads_back_as_itself(seed):
    text = print_module(RandomKernel(seed).module())
    assert print_module(verify(parse_module(text))) == text


@pytest.mark.parametrize("seed", SEEDS)
def test_no_pass_changes_what_a_kernel_does(seed):
    kernel = RandomKernel(seed)
    module, text = (m := kernel.module()), print_module(m)
    args = kernel.arguments()
    expected = outcome(module, args)
    for run in pipeline():
        changed = verify(run(module))
        assert changed is module or outcome(changed, args) == expected, f"{run.__name__} changed\n{text}\ninto\n{changed}"
    assert print_module(module) == text, "a pass changed its input"
    optimised = verify(optimise(module))
    assert outcome(optimised, args) == expected, f"optimise changed\n{text}\ninto\n{optimised}"
    assert print_module(optimise(module)) == print_module(optimised), "not deterministic"
    reread = optimise(parse_module(text))
    assert print_module(reread) == print_module(optimised), "values or names of the same text decide"


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_settle(seed):
    module = optimise(RandomKernel(seed).module())
    assert optimise(module) is module
