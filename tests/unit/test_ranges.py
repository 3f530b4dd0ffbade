"""Intervals, divisibility and contiguity of integers; random kernels never leave what is claimed."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from eas.analysis.ranges import Contiguity, Range, Ranges, dump, value_ranges
from eas.analysis.ranges.transfer import transfer
from eas.ir import verify, walk
from eas.ir.text import parse_module
from tests.unit.observed_run import Overflow, Run
from tests.unit.random_indices import random_arguments, random_module


def ranges_of(args: str, body: str) -> Ranges:
    return value_ranges(verify(parse_module(f"kernel k({args}) spmd {{\n{body}\nyield\n}}")))


def lines(args: str, body: str) -> dict[str, str]:
    text = dump(ranges_of(args, body))
    return dict(line.removeprefix("%").split(": ", 1) for line in text.splitlines())


def test_arguments_tell_what_their_attributes_say():
    got = lines("%n: i32, %d: i32 {divisible=16}, %r: i32 {range=(1,10,)}, %e: i64 {equals=7}, %u: u8, %p: ptr<f32>", "")
    assert got == {
        "n": "[-2147483648, 2147483647]",
        "d": "[-2147483648, 2147483632] multiple of 16",
        "r": "[1, 10]",
        "e": "[7, 7] multiple of 7",
        "u": "[0, 255]",
        "p": "[0, 0] multiple of 0",
    }


def test_offsets_of_a_program_are_contiguous_and_aligned():
    got = lines(
        "%p: ptr<f32>",
        """
        %pid = program_id {axis=0} : i32
        %c = const 64 : i32
        %s = mul %pid, %c : i32
        %sb = broadcast %s {shape=(64,)} : i32[64]
        %i = arange {start=0, end=64} : i32[64]
        %o = add %sb, %i : i32[64]
        %pb = broadcast %p {shape=(64,)} : ptr<f32>[64]
        %q = addptr %pb, %o : ptr<f32>[64]
        %x = load %q : f32[64]
        """,
    )
    assert got["pid"] == "[0, 2147483646]"
    assert got["s"] == "[0, 2147483584] multiple of 64"
    assert got["sb"] == "[0, 2147483584] multiple of 64, axis 0: 64 equal"
    assert got["i"] == "[0, 63], axis 0: runs of 64 from multiples of 0"
    assert got["o"] == got["q"] == "[0, 2147483647], axis 0: runs of 64 from multiples of 64"


def test_arithmetic_that_is_no_address_wraps():
    got = lines("%n: i32 {range=(0,100000,)}", "%s = mul %n, %n : i32\n%t = add %s, %s : i32")
    assert got["s"] == "[-2147483648, 2147483647], may wrap"
    assert got["t"] == "[-2147483648, 2147483647], may wrap"


def test_a_wrapping_product_keeps_powers_of_two():
    got = lines("%n: i32", "%c = const 24 : i32\n%s = mul %n, %c : i32")
    assert got["s"] == "[-2147483648, 2147483640] multiple of 8, may wrap"


def test_a_hash_before_modulo_is_no_address():
    got = lines(
        "%p: ptr<i32>, %n: i32 {range=(0,100000,)}",
        """
        %h = mul %n, %n : i32
        %c = const 1024 : i32
        %o = mod %h, %c : i32
        %q = addptr %p, %o : ptr<i32>
        %x = load %q : i32
        """,
    )
    assert got["h"].endswith("may wrap")
    assert got["o"] == "[0, 1023]"


@pytest.mark.parametrize(
    ("op", "a", "b", "want"),
    [
        ("floordiv", (-7, 9), (2, 4), (-4, 4)),
        ("floordiv", (-7, 9), (-1, 1), (-9, 9)),
        ("truncdiv", (-7, 9), (2, 4), (-3, 4)),
        ("mod", (0, 5), (8, 9), (0, 5)),
        ("mod", (-5, 5), (3, 8), (0, 7)),
        ("mod", (-5, 5), (-3, 8), (-2, 7)),
        ("truncmod", (-5, 100), (3, 8), (-5, 7)),
        ("min", (-5, 5), (0, 9), (-5, 5)),
        ("max", (-5, 5), (0, 9), (0, 9)),
        ("and", (-5, 5), (0, 9), (0, 9)),
        ("or", (1, 5), (2, 9), (2, 15)),
        ("xor", (1, 5), (2, 9), (0, 15)),
        ("shl", (1, 5), (0, 3), (1, 40)),
        ("shr", (-8, 5), (1, 2), (-4, 2)),
        ("sub", (1, 5), (2, 9), (-8, 3)),
    ],
)
def test_intervals_of_binary_ops(op, a, b, want):
    r = ranges_of(f"%a: i32 {{range=({a[0]},{a[1]},)}}, %b: i32 {{range=({b[0]},{b[1]},)}}", f"%c = {op} %a, %b : i32")
    out = r[next(walk(r.module.body)).out]
    assert (out.lo, out.hi) == want
    # Every combination is inside, and both ends are reached unless the rule is coarse on purpose.
    assert r.is_exact(next(walk(r.module.body)).out)


def towards_zero(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


PYTHON = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0, "truncdiv": towards_zero,
    "mod": lambda a, b: a % b if b else 0, "truncmod": lambda a, b: a - towards_zero(a, b) * b if b else 0,
    "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b if b >= 0 else 0, "shr": lambda a, b: a >> b if b >= 0 else 0,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip
ENDS = (-9, -4, -1, 0, 1, 2, 6, 8)


@pytest.mark.parametrize("op", PYTHON)
def test_no_result_is_outside_of_its_range(op):
    """All pairs of small intervals, of all numbers and of multiples of 2 and 3."""
    kind = "bool" if op in ("lt", "le", "gt", "ge", "eq", "ne") else "i32"
    inst = next(walk(verify(parse_module(f"kernel k(%a: i32, %b: i32) spmd {{\n%c = {op} %a, %b : {kind}\nyield\n}}")).body))
    spans = [(lo, hi, m) for lo in ENDS for hi in ENDS for m in (1, 2, 3) if lo <= hi and lo % m == 0 and hi % m == 0]
    for a in spans:
        for b in spans:
            if op in ("shl", "shr") and b[0] < 0:
                continue
            found = transfer(inst, [Range(*a), Range(*b)], inst.out.type)
            results = {int(PYTHON[op](x, y)) for x in range(a[0], a[1] + 1, a[2]) for y in range(b[0], b[1] + 1, b[2])}
            assert found.lo <= min(results), f"{a} {b}: {found}"
            assert max(results) <= found.hi, f"{a} {b}: {found}"
            assert all(x % found.multiple == 0 if found.multiple else x == 0 for x in results), f"{a} {b}: {found}"


def test_modulo_by_a_positive_multiple_keeps_runs():
    body = """
    %pid = program_id {axis=0} : i32
    %c = const 16 : i32
    %s = mul %pid, %c : i32
    %sb = broadcast %s {shape=(64,)} : i32[64]
    %i = arange {start=0, end=64} : i32[64]
    %o = add %sb, %i : i32[64]
    %mb = broadcast %M {shape=(64,)} : i32[64]
    %r = mod %o, %mb : i32[64]
    %q = floordiv %o, %mb : i32[64]
    """
    known = lines("%M: i32 {divisible=16, range=(1,4096,)}", body)
    assert known["o"].endswith("may wrap")
    known = lines("%M: i32 {divisible=16, range=(1,4096,)}", body.replace("program_id {axis=0} : i32", "const 3 : i32"))
    assert known["r"] == "[0, 111], axis 0: runs of 16 from multiples of 16"
    unknown = lines("%M: i32 {divisible=16}", body.replace("program_id {axis=0} : i32", "const 3 : i32"))
    assert "runs" not in unknown["r"]  # a divisor of 0 or below would break the runs


def test_division_by_a_constant_gives_equal_groups():
    got = lines("", "%i = arange {start=0, end=64} : i32[64]\n%c = const 8 : i32[64]\n%q = floordiv %i, %c : i32[64]\n%m = mod %i, %c : i32[64]")
    assert got["q"] == "[0, 7], axis 0: 8 equal"
    assert got["m"] == "[0, 7], axis 0: runs of 8 from multiples of 8"


def test_comparison_with_a_multiple_decides_whole_groups():
    got = lines(
        "%N: i32 {divisible=16}",
        "%i = arange {start=0, end=64} : i32[64]\n%n = broadcast %N {shape=(64,)} : i32[64]\n%a = lt %i, %n : bool[64]\n%b = gt %n, %i : bool[64]\n%c = le %i, %n : bool[64]",
    )
    assert got["a"] == got["b"] == "[0, 1], axis 0: 16 equal"
    assert got["c"] == "[0, 1]"


def test_hints_in_the_order_triton_users_write_them():
    got = lines(
        "%M: i32, %p: ptr<f32>",
        """
        %pid = program_id {axis=0} : i32
        %pb = broadcast %pid {shape=(64,)} : i32[64]
        %mb = broadcast %M {shape=(64,)} : i32[64]
        %r = mod %pb, %mb : i32[64]
        %a = multiple_of %r {n=64} : i32[64]
        %b = max_contiguous %a {n=64} : i32[64]
        %c = multiple_of %pid {n=4} : i32
        """,
    )
    assert "runs" not in got["a"]
    assert got["b"] == "[-2147483647, 2147483646], axis 0: runs of 64 from multiples of 64"
    assert got["c"] == "[0, 2147483644] multiple of 4"


LOOP = """
%z = const 0 : i32
%e = const 64 : i32
%s = const 16 : i32
%q, %n, %t = for %z, %e, %s, %p, %z, %z : ptr<f32>, i32, i32 (%k: i32, %a: ptr<f32>, %b: i32, %c: i32) {
  %a2 = addptr %a, %s : ptr<f32>
  %two = const 2 : i32
  %b2 = sub %b, %two : i32
  %c2 = max %c, %k : i32
  yield %a2, %b2, %c2
}
"""


def test_loops_with_fixed_steps_are_summed_exactly():
    got = lines("%p: ptr<f32>", LOOP)
    assert got["k"] == "[0, 48] multiple of 16"
    assert got["a"] == "[0, 48] multiple of 16"
    assert got["q"] == "[0, 64] multiple of 16"
    assert got["b"] == "[-6, 0] multiple of 2"
    assert got["n"] == "[-8, 0] multiple of 2"
    assert got["c"] == got["t"] == "[0, 48] multiple of 16"


@pytest.mark.parametrize("by", [(1, 1), (1, 3), (2, 4), (-2, -1), (-1, 2), (-3, -3)])
def test_counters_and_what_moves_with_them_stay_in_their_ranges(by):
    """All small intervals of start and end, judged by running every one of their loops."""
    for start, end in itertools.product([(0, 0), (-2, 1), (0, 3), (4, 7)], [(0, 5), (4, 4), (-3, 2), (1, 9)]):
        ends = ", ".join(f"%{n}: i32 {{range=({lo},{hi},)}}" for n, (lo, hi) in (("s", start), ("e", end), ("b", by)))
        r = ranges_of(ends, "%z = const 0 : i32\n%c = const 5 : i32\n%t = for %s, %e, %b, %z : i32 (%i: i32, %k: i32) {\n%n = add %k, %c : i32\nyield %n\n}")
        loop = next(inst for inst in walk(r.module.body) if inst.op.name == "for")
        counters, carried, after = set(), set(), set()
        for s, e, b in itertools.product(*(range(lo, hi + 1) for lo, hi in (start, end, by))):
            steps = range(s, e, b) if b else range(0)
            counters.update(steps)
            carried.update(5 * k for k in range(len(steps)))
            after.add(5 * len(steps))
        for value, numbers in zip((*loop.regions[0].params, loop.out), (counters, carried, after), strict=True):
            known = r[value]
            assert all(known.lo <= n <= known.hi and (n % known.multiple == 0 if known.multiple else n == 0) for n in numbers), f"{start} {end} {by}: {known}, {numbers}"


def test_ids_reach_the_last_thread_of_the_largest_threadgroup():
    module = parse_module("kernel k() thread {threads=1024} {\n%t = local_id {axis=0} : i32\n%l = lane_id : i32\n%s = sg_id : i32\n%p = program_id {axis=0} : i32\n%n = num_programs {axis=0} : i32\nyield\n}")
    found = [value_ranges(verify(module))[inst.out] for inst in walk(module.body) if inst.outs]
    assert [(r.lo, r.hi) for r in found] == [(0, 1023), (0, 31), (0, 31), (0, 2**31 - 2), (1, 2**31 - 1)]


def test_a_loop_that_grows_without_bound_widens():
    got = lines("%n: i32", "%z = const 0 : i32\n%o = const 1 : i32\n%r = for %z, %n, %o, %o : i32 (%k: i32, %a: i32) {\n%b = add %a, %a : i32\nyield %b\n}")
    assert got["a"] == got["r"] == "[-2147483648, 2147483647]"


def test_while_loops_reach_a_fixpoint():
    got = lines(
        "%n: i32",
        "%z = const 8 : i32\n%r = while %z : i32 (%a: i32) {\n%c = lt %a, %n : bool\nyield %c\n} (%b: i32) {\n%f = const 4 : i32\n%d = add %b, %f : i32\nyield %d\n}",
    )
    assert got["r"] == "[-2147483648, 2147483644] multiple of 4"


def test_conditions_sharpen_scalars_inside_of_their_branch():
    got = lines(
        "%n: i32, %m: i32",
        """
        %z = const 0 : i32
        %c = gt %n, %z : bool
        %r = if %c : i32 () {
          %a = add %n, %z : i32
          yield %n
        } () {
          %b = add %n, %z : i32
          %o = const 1 : i32
          yield %o
        }
        """,
    )
    assert got["a"] == "[1, 2147483647]"
    assert got["b"] == "[-2147483648, 0]"
    assert got["r"] == "[1, 2147483647]"
    assert got["n"] == "[-2147483648, 2147483647]"


def test_assume_holds_from_there_on():
    got = lines(
        "%n: i32, %m: i32",
        """
        %z = const 0 : i32
        %sixteen = const 16 : i32
        %before = max %n, %z : i32
        %rest = mod %n, %sixteen : i32
        %whole = eq %rest, %z : bool
        %positive = lt %z, %n : bool
        %less = le %n, %m : bool
        %both = and %whole, %positive : bool
        %all = and %both, %less : bool
        assume %all
        %after = max %n, %z : i32
        %other = max %m, %z : i32
        """,
    )
    assert got["before"] == "[0, 2147483647]"
    assert got["after"] == "[16, 2147483632] multiple of 16"
    assert got["other"] == "[16, 2147483647]"


def test_choices_that_are_already_made_are_recorded():
    r = ranges_of("%n: i32 {range=(0,7,)}", "%c = const 8 : i32\n%a = min %n, %c : i32\n%b = max %n, %c : i32\n%m = mod %n, %c : i32\n%o = min %n, %n : i32")
    insts = {i.outs[0].hint: i for i in walk(r.module.body) if i.outs}
    n, c = r.module.args[0].value, insts["c"].out
    assert [r.chosen(insts[name].out) for name in "abmo"] == [n, c, n, None]


def test_ranges_know_shapes_that_move():
    got = lines(
        "",
        """
        %i = arange {start=16, end=32} : i32[16]
        %e = expand_dims %i {axis=0} : i32[1,16]
        %b = broadcast %e {shape=(4,16,)} : i32[4,16]
        %t = permute %b {order=(1,0,)} : i32[16,4]
        %r = reshape %e {shape=(16,1,)} : i32[16,1]
        %f = reshape %b {shape=(64,)} : i32[64]
        """,
    )
    assert got["b"] == "[16, 31], axis 0: 4 equal, axis 1: runs of 16 from multiples of 16"
    assert got["t"] == "[16, 31], axis 0: runs of 16 from multiples of 16, axis 1: 4 equal"
    assert got["r"] == "[16, 31], axis 0: runs of 16 from multiples of 16"
    assert got["f"] == "[16, 31]"


def check(x: np.ndarray, r: Range) -> None:
    """Assert that the elements are what the range says."""
    assert r.lo <= x.min()
    assert x.max() <= r.hi
    assert _are_multiples(x, r.multiple)
    for axis, c in enumerate(r.axes):
        assert _axis_holds(np.moveaxis(x, axis, 0), c), f"axis {axis}"


def _axis_holds(rows: np.ndarray, c: Contiguity) -> bool:
    position = np.arange(len(rows))
    first = rows[position - position % c.run]
    counts = first + (position % c.run).reshape([-1] + [1] * (rows.ndim - 1))
    equal = rows[position - position % c.constancy]
    return bool(np.all(rows == counts) and _are_multiples(first, c.multiple) and np.all(rows == equal))


def _are_multiples(x: np.ndarray, n: int) -> bool:
    return bool(np.all(x == 0 if n == 0 else x % n == 0))


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_stay_in_their_ranges(seed):
    module = random_module(seed, 25)
    ranges, rng = value_ranges(module), random.Random(seed)

    def witness(value, run):
        if value.type.is_pointer or not value.dtype.is_float:
            check(run.elements(value), ranges[value])

    for _ in range(3):
        try:
            Run(module, random_arguments(rng), rng.choice((0, 1, 5)), witness)
        except Overflow:
            continue
