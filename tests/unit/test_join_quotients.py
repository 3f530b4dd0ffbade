"""join_quotients: whatever sum of quotients and remainders is joined, every offset stays what it was."""

from __future__ import annotations

import itertools

import numpy as np

from eas.ir import IRModule, verify, walk
from eas.ir.text import parse_module
from eas.passes.join_quotients import join_quotients
from eas.runtime.interp import execute

HEAD = "kernel k(%x: ptr<i32>, %y: ptr<i32>, %w: i32 {range=(1,2147483647,)}, %v: i32 {range=(1,2147483647,)}) spmd {"


def kernel(divisors: tuple[str, str], factors: tuple[int, int], scaled: bool, more: int) -> IRModule:
    """Loads from (i // a) * p [* w] + (i % b) * q + more, for i < 96."""
    lines = ["%i = arange {start=0, end=96} : i32[96]", "%xs = broadcast %x {shape=(96,)} : ptr<i32>[96]", "%ys = broadcast %y {shape=(96,)} : ptr<i32>[96]"]
    for name, divisor in zip("ab", divisors, strict=True):
        lines.append(f"%{name}n = const {divisor} : i32" if divisor.isdigit() else f"%{name}n = multiple_of %{divisor} {{n=1}} : i32")
        lines.append(f"%{name} = broadcast %{divisor if not divisor.isdigit() else name + 'n'} {{shape=(96,)}} : i32[96]")
    lines += ["%q = floordiv %i, %a : i32[96]", "%r = mod %i, %b : i32[96]"]
    for name, number in zip(("p", "s", "m"), (*factors, more), strict=True):
        lines += [f"%{name}n = const {number} : i32", f"%{name} = broadcast %{name}n {{shape=(96,)}} : i32[96]"]
    lines += ["%w96 = broadcast %w {shape=(96,)} : i32[96]", "%q1 = mul %q, %p : i32[96]"]
    lines.append("%q2 = mul %q1, %w96 : i32[96]" if scaled else "%q2 = add %q1, %m : i32[96]")
    lines += ["%r1 = mul %r, %s : i32[96]", "%o1 = add %q2, %r1 : i32[96]", "%o = add %o1, %m : i32[96]"]
    lines += ["%at = addptr %xs, %o : ptr<i32>[96]", "%got = load %at : i32[96]", "%to = addptr %ys, %i : ptr<i32>[96]", "store %to, %got"]
    return verify(parse_module("\n".join([HEAD, *lines, "yield", "}"])))


def test_offsets_stay_what_they_are():
    memory, joined = np.arange(4000, dtype=np.int32), 0
    for divisors in itertools.product(("4", "6", "w"), repeat=2):
        for factors, scaled, more in itertools.product(((4, 1), (3, 1), (1, 1), (8, 2), (6, 1)), (False, True), (0,)):
            module = kernel(divisors, factors, scaled, more)
            changed = verify(join_quotients(module))
            joined += not any(inst.op.name == "mod" for inst in walk(changed.body)) or changed is not module
            for w, v in ((4, 4), (5, 3)) if changed is not module else ():
                want, got = np.zeros(96, np.int32), np.zeros(96, np.int32)
                execute(module, [memory, want, w, v], (1, 1, 1))
                execute(changed, [memory, got, w, v], (1, 1, 1))
                np.testing.assert_array_equal(got, want, f"{divisors} {factors} {scaled} {more} with w={w}, v={v}")
    assert joined >= 4, "some of them meet"
