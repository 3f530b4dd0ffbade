"""Who agrees on what: the levels of values in thread mode, and of scalars in spmd mode."""

from __future__ import annotations

import pytest

from eas.analysis.uniformity import Uniformity, dump, is_uniform, uniformity
from eas.ir import verify
from eas.ir.text import parse_module
from eas.passes.spread_threads import spread_threads


def levels_of(
    body: str, args: str = "%x: ptr<i32>, %n: i32", mode: str = "thread {threads=64}"
) -> dict[str, str]:
    """Name -> level, for the names written in `body`."""
    module = verify(parse_module(f"kernel k({args}) {mode} {{\n{body}\n  yield\n}}"))
    return dict(line.split(": ") for line in dump(module).splitlines())


IDS = """
  %pid = program_id {axis=0} : i32
  %np = num_programs {axis=0} : i32
  %t = tid {start=0, end=64} : i32
  %sg = sg_id : i32
  %lane = lane_id : i32
  %c0 = const 0 : i32
  %c1 = const 1 : i32
"""


def test_dump_names_every_value_in_printed_order():
    module = parse_module(
        "kernel k(%n: i32) thread {threads=8} {\n  %s = sg_id : i32\n  %a = add %s, %n : i32\n  yield\n}"
    )
    assert dump(module) == "%n: launch\n%s: simdgroup\n%a: simdgroup\n"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("const 3 : i32", "launch"),
        ("num_programs {axis=1} : i32", "launch"),
        ("local_id {axis=0} : i32", "varying"),
        ("local_id {axis=2} : i32", "launch"),
        ("add %pid, %n : i32", "program"),
        ("add %sg, %pid : i32", "simdgroup"),
        ("mul %lane, %n : i32", "varying"),
        ("load %x : i32", "program"),
        ('alloc_tg {dtype=i32, name="a", size=4} : tg_ptr<i32>', "program"),
        ("atomic_add %x, %n : i32", "varying"),
    ],
)
def test_level_of_a_source(line, level):
    assert levels_of(f"{IDS}\n  %v = {line}")["%v"] == level


@pytest.mark.parametrize(
    ("index", "level"), [("%n", "program"), ("%sg", "simdgroup"), ("%t", "varying")]
)
def test_load_is_as_uniform_as_its_address(index, level):
    assert (
        levels_of(f"{IDS}\n  %p = addptr %x, {index} : ptr<i32>\n  %v = load %p : i32")["%v"]
        == level
    )


@pytest.mark.parametrize(
    ("op", "of_uniform", "of_simdgroup", "of_varying"),
    [
        ("simd_max %v", "launch", "simdgroup", "simdgroup"),
        ("simd_sum %v", "simdgroup", "simdgroup", "simdgroup"),  # the last simdgroup may be smaller
        ("simd_prefix_inclusive_sum %v", "varying", "varying", "varying"),
        ("simd_broadcast %v, %c0", "launch", "simdgroup", "simdgroup"),
        ("simd_shuffle_xor %v, %c1", "launch", "simdgroup", "varying"),
    ],
)
def test_simd_op_levels(op, of_uniform, of_simdgroup, of_varying):
    for source, level in (("%n", of_uniform), ("%sg", of_simdgroup), ("%t", of_varying)):
        assert levels_of(f"{IDS}\n  %r = {op.replace('%v', source)} : i32")["%r"] == level


@pytest.mark.parametrize(("op", "of"), [("floordiv", "__floordiv__"), ("truncdiv", "__floordiv__"), ("mod", "__mod__"), ("shr", "__rshift__"), ("and", "__and__"), ("mul", "__mul__")])
def test_threads_agree_where_a_level_says_so(op, of):
    """Every small number beside the thread's own: what is of a simdgroup is the same in all of its lanes."""
    for number in (*range(17), 24, 31, 32, 33, 48, 63, 64, 80, 96, 128):
        if number == 0 and op != "shr":
            continue
        for start in (0, 1, 32):
            level = levels_of(f"%t = tid {{start={start}, end={start + 128}}} : i32\n%k = const {number} : i32\n%v = {op} %t, %k : i32")["%v"]
            values = [getattr(start + t, of)(number) for t in range(128)]
            agree = all(len(set(values[first : first + 32])) == 1 for first in range(0, 128, 32))
            assert level == "varying" or agree, f"{op} by {number} of threads from {start}"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("floordiv %t, %k : i32", "simdgroup"),
        ("shr %t, %five : i32", "simdgroup"),
        ("shr %t, %c1 : i32", "varying"),
        ("floordiv %n, %k : i32", "launch"),
        ("floordiv %off, %k : i32", "varying"),
    ],
)
def test_thread_index_by_32_is_the_simdgroup(line, level):
    more = "  %k = const 64 : i32\n  %five = const 5 : i32\n  %off = tid {start=1, end=65} : i32\n"
    assert levels_of(f"{IDS}{more}  %v = {line}")["%v"] == level


@pytest.mark.parametrize(
    ("cond", "level"), [("%n", "launch"), ("%sg", "simdgroup"), ("%t", "varying")]
)
def test_branch_result_joins_its_condition(cond, level):
    body = f"""{IDS}
  %c = lt {cond}, %c1 : bool
  %r = if %c : i32 () {{
    yield %c0
  }} () {{
    yield %n
  }}"""
    assert levels_of(body)["%r"] == level


def for_loop(end: str, yielded: str) -> dict[str, str]:
    return levels_of(f"""{IDS}
  %a, %b = for %c0, {end}, %c1, %c0, %c0 : i32, i32 (%i: i32, %p: i32, %q: i32) {{
    %s = add %q, %i : i32
    %u = add %n, %n : i32
    yield {yielded}, %p
  }}""")


def test_loop_carried_level_reaches_a_fixpoint():
    # %t enters %p, and through it %q one iteration later.
    found = for_loop("%n", "%t")
    assert [found[v] for v in ("%a", "%b", "%p", "%q", "%s")] == ["varying"] * 5
    assert found["%i"] == "launch"


def test_uniform_loop_keeps_uniform_values():
    found = for_loop("%n", "%s")
    assert {found[v] for v in ("%a", "%b", "%p", "%q", "%s", "%i")} == {"launch"}


def test_varying_bounds_make_all_carried_values_varying():
    found = for_loop("%t", "%u")
    assert {found[v] for v in ("%a", "%b", "%p", "%q", "%i")} == {"varying"}
    assert found["%u"] == "launch"


def test_while_joins_its_test():
    found = levels_of(f"""{IDS}
  %r, %k = while %c0, %c0 : i32, i32 (%a: i32, %b: i32) {{
    %go = lt %a, %sg : bool
    yield %go
  }} (%c: i32, %d: i32) {{
    %e = add %c, %c1 : i32
    yield %e, %d
  }}""")
    assert {found[v] for v in ("%r", "%k", "%a", "%b", "%c", "%d")} == {"simdgroup"}


def test_spmd_scalars_are_at_most_program():
    found = levels_of(
        """
  %i = arange {start=0, end=16} : i32[16]
  %s = reduce %i {axis=0} : i32 (%a: i32, %b: i32) {
    %m = max %a, %b : i32
    yield %m
  }
  %old = atomic_add %x, %n : i32
  %w = broadcast %n {shape=(16,)} : i32[16]""",
        mode="spmd",
    )
    assert [found[v] for v in ("%i", "%s", "%old", "%w", "%m")] == [
        "varying",
        "program",
        "program",
        "launch",
        "varying",
    ]


def test_spread_module_has_no_scalar_above_program():
    module = parse_module(
        f"kernel k(%x: ptr<i32>, %n: i32) thread {{threads=64}} {{{IDS}  %s = simd_sum %t : i32\n  yield\n}}"
    )
    spread = spread_threads(module)
    assert all(
        level <= Uniformity.PROGRAM
        for v, level in uniformity(spread).items()
        if v.type.is_scalar and v.type.is_value and not v.dtype.is_bool
    )


def test_is_uniform_asks_for_all_values():
    module = parse_module("kernel k(%n: i32) thread {threads=64} {\n  %s = sg_id : i32\n  yield\n}")
    levels = uniformity(module)
    n, s = module.args[0].value, module.body.body[0].out
    assert is_uniform(levels, n)
    assert not is_uniform(levels, n, s)
    assert is_uniform(levels, n, s, among=Uniformity.SIMDGROUP)
