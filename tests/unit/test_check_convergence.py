"""What spreading refuses: lanes that cannot all arrive, and pointers that cannot be lanes."""

from __future__ import annotations

import re

import pytest

from eas.base.errors import Unsupported
from eas.ir import Loc, verify
from eas.ir.text import LocTable, parse_module
from eas.passes.check_convergence import check_convergence
from eas.passes.spread_threads import spread_threads
from tests.unit.thread_harness import CONSTANTS, MMA, kernel


def a_line_of_the_user():
    mk.barrier()  # type: ignore[name-defined]  # noqa: F821


def refusal(body: str, args: str = "%x: ptr<i32>, %n: i32") -> str:
    """The text of the refusal; `@ 0` in the body is `a_line_of_the_user`."""
    code = a_line_of_the_user.__code__
    call = next(
        2 * i for i, (line, *_) in enumerate(code.co_positions()) if line != code.co_firstlineno
    )
    module = parse_module(
        f"kernel k({args}) thread {{threads=64}} {{\n{CONSTANTS}{body}\n  yield\n}}",
        LocTable([Loc(((code, call),))]),
    )
    with pytest.raises(Unsupported) as spreading:
        spread_threads(verify(module))
    return re.sub(r"test_check_convergence.py:\d+", "FILE", str(spreading.value))


def under_if(inst: str, cond: str) -> str:
    return f"{MMA.replace('%a', '%x').replace('%c,', '%x,').replace('f32', 'f16')}\n  %k = lt {cond}, %c3 : bool\n  if %k () {{\n    {inst} @ 0\n    yield\n  }} () {{\n    yield\n  }}"


BARRIER_IN_IF = """a barrier must be reached by every thread of the threadgroup, but this one is under an `if` (or after an early return) that threads decide differently
  at FILE
    mk.barrier()  # type: ignore[name-defined]  # noqa: F821
    ^^
  hint: move it out of the branch and mask the loads and stores instead"""


@pytest.mark.parametrize("cond", ["%t", "%sg"])
def test_barrier_under_a_varying_branch_is_refused(cond):
    assert refusal(under_if("barrier", cond), "%x: ptr<f16>, %n: i32") == BARRIER_IN_IF


def test_barrier_in_a_loop_with_varying_bounds_is_refused():
    text = refusal("  for %c0, %t, %c1 (%i: i32) {\n    barrier @ 0\n    yield\n  }")
    assert (
        text.splitlines()[0]
        == "a barrier must be reached by every thread of the threadgroup, but this one is in a `for` loop that threads leave at different times"
    )
    assert (
        text.splitlines()[-1]
        == "  hint: give the loop the same trip count in every thread and mask the loads and stores instead"
    )


@pytest.mark.parametrize(
    ("inst", "hint"),
    [
        (
            "%s = simd_sum %t : i32",
            "call it outside, where every lane arrives, and choose with mk.where",
        ),
        (
            "mma_store %pc, %c8, %z",
            "decide by what all lanes of a simdgroup agree on, such as mk.sg_id() or mk.simd_any(...)",
        ),
    ],
)
def test_simd_op_under_a_varying_branch_is_refused(inst, hint):
    text = refusal(under_if(inst, "%t"), "%x: ptr<f16>, %n: i32")
    name = inst.removeprefix("%s = ").split()[0]
    assert (
        text.splitlines()[0]
        == f"{name} must be reached by every lane of the simdgroup, but this one is under an `if` (or after an early return) that threads decide differently"
    )
    assert text.splitlines()[-1] == f"  hint: {hint}"


def test_simd_op_under_a_simdgroup_branch_is_allowed():
    check_convergence(
        kernel(
            "  %sg = sg_id : i32\n  %k = lt %sg, %c1 : bool\n  if %k () {\n    %s = simd_sum %t : i32\n    yield\n  } () {\n    yield\n  }",
            "",
        )
    )


def test_allocation_inside_a_branch_is_refused():
    text = refusal(
        '  %k = lt %n, %c1 : bool\n  if %k () {\n    %m = alloc_tg {dtype=f32, name="m", size=4} : tg_ptr<f32> @ 0\n    yield\n  } () {\n    yield\n  }'
    )
    assert text.splitlines()[0] == "mk.alloc_tg inside of a loop or branch"
    assert (
        text.splitlines()[-1]
        == "  hint: allocate threadgroup memory at the top level of the kernel"
    )


def test_pointer_chosen_by_each_thread_is_refused():
    text = refusal(
        "  %k = lt %t, %n : bool\n  %p = if %k : ptr<i32> @ 0 () {\n    yield %x\n  } () {\n    yield %y\n  }",
        "%x: ptr<i32>, %y: ptr<i32>, %n: i32",
    )
    assert (
        text.splitlines()[0]
        == "threads that take different paths here get pointers into different buffers"
    )
    assert text.splitlines()[-1] == "  hint: load on each path and choose between the loaded values"
