"""Builds thread-mode modules from IR text, and runs them as lanes and as single threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.ir import IRModule, verify, walk
from eas.ir.text import parse_module
from eas.passes.spread_threads import spread_threads
from eas.runtime.interp import execute
from tests.unit.thread_machine import run_threads


def kernel(body: str, args: str, threads: int = 64) -> IRModule:
    return verify(
        parse_module(
            f"kernel k({args}) thread {{threads={threads}}} {{\n{CONSTANTS}{body}\n  yield\n}}"
        )
    )


CONSTANTS = """
  %c0 = const 0 : i32
  %c1 = const 1 : i32
  %c2 = const 2 : i32
  %c3 = const 3 : i32
  %c8 = const 8 : i32
  %t = local_id {axis=0} : i32
"""


def spread_of(module: IRModule) -> IRModule:
    """Spread, verified, and equal to what its text says."""
    spread = verify(spread_threads(module))
    assert str(parse_module(str(spread))) == str(spread)
    assert spread.attr("spread") is True
    return spread


def both(module: IRModule, args: Sequence[Any], programs: int = 1) -> list[Any]:
    """The arguments after a launch; lanes and single threads must agree on every buffer."""
    lanes, threads = (
        [a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)
    )
    execute(spread_of(module), lanes, (programs, 1, 1))
    run_threads(module, threads, (programs, 1, 1), seed=1)
    for arg, got, want in zip(module.args, lanes, threads, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=arg.name)
    return lanes


def names(module: IRModule) -> list[str]:
    return [inst.op.name for inst in walk(module.body)]


def i32(n: int) -> np.ndarray:
    return np.zeros(n, np.int32)


MMA = """
  %sg = sg_id : i32
  %k64 = const 64 : i32
  %off = mul %sg, %k64 : i32
  %pa = addptr %a, %off : ptr<f32>
  %pc = addptr %c, %off : ptr<f32>
  %z = mma_zero : frag<f32>[8,8]
"""
