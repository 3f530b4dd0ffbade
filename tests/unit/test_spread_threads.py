"""Threads as lanes: the spread kernel does what its threads would do one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from eas.base.errors import ModeMismatch, OutOfBounds
from eas.ir.text import parse_module
from eas.passes.spread_threads import spread_threads
from eas.runtime.interp import execute
from tests.unit.thread_harness import both, i32, kernel, names, spread_of

# --- shape of the result -----------------------------------------------------------------------


def test_uniform_values_stay_scalar_and_varying_ones_become_blocks():
    module = kernel(
        """
  %d = mul %n, %c2 : i32
  %i = add %t, %d : i32
  %p = addptr %x, %i : ptr<f32>
  %v = load %p : f32
  %u = load %x : f32
  %w = add %v, %u : f32
  store %p, %w""",
        "%x: ptr<f32>, %n: i32",
        threads=4,
    )
    lines = str(spread_of(module)).splitlines()
    assert lines[0] == "kernel k(%x: ptr<f32>, %n: i32) thread {spread=true, threads=4} {"
    assert [line.strip() for line in lines if "const" not in line][1:] == [
        "%t = arange {end=4, start=0} : i32[4]",
        "%d = mul %n, %c2 : i32",
        "%0 = broadcast %d {shape=(4,)} : i32[4]",
        "%i = add %t, %0 : i32[4]",
        "%1 = broadcast %x {shape=(4,)} : ptr<f32>[4]",
        "%p = addptr %1, %i : ptr<f32>[4]",
        "%v = load %p : f32[4]",
        "%u = load %x : f32",
        "%2 = broadcast %u {shape=(4,)} : f32[4]",
        "%w = add %v, %2 : f32[4]",
        "store %p, %w",
        "yield",
        "}",
    ]


def test_branch_becomes_masks_and_select():
    module = kernel(
        """
  %c = lt %t, %n : bool
  %p = addptr %x, %t : ptr<i32>
  %r = if %c : i32 () {
    %v = load %p : i32
    yield %v
  } () {
    store %p, %t
    yield %c3
  }""",
        "%x: ptr<i32>, %n: i32",
        threads=4,
    )
    text = str(spread_of(module))
    assert " if " not in text
    assert "%v = load %p, %c : i32[4]" in text
    assert re.search(r"%(\d+) = not %c : bool\[4\]\n  store %p, %t, %\1\n", text)
    assert re.search(r"%r = select %c, %v, %\d+ : i32\[4\]", text)


def test_uniform_branch_and_loop_stay():
    module = kernel(
        """
  %c = lt %n, %c3 : bool
  if %c () {
    %r = for %c0, %n, %c1, %c0 : i32 (%i: i32, %a: i32) {
      %b = add %a, %t : i32
      yield %b
    }
    yield
  } () {
    yield
  }""",
        "%n: i32",
    )
    text = str(spread_of(module))
    assert "  if %c () {" in text
    assert re.search(r"%r = for %c0, %n, %c1, %\d+ : i32\[64\] \(%i: i32, %a: i32\[64\]\)", text)


def test_side_with_a_loop_runs_only_for_an_active_lane():
    # Without the guard nobody would ever change %a: an empty mask would loop for ever.
    module = kernel(
        """
  %c = lt %t, %n : bool
  if %c () {
    %v = load %x : i32
    %r = while %v : i32 (%a: i32) {
      %go = eq %a, %c0 : bool
      yield %go
    } (%b: i32) {
      %w = load %x : i32
      yield %w
    }
    store %x, %r
    yield
  } () {
    yield
  }""",
        "%x: ptr<i32>, %n: i32",
    )
    for n in (0, 3):
        (x, _) = both(module, [np.array([7], np.int32), n])
        assert x[0] == 7


def test_spreading_twice_is_spreading_once():
    spread = spread_of(kernel("", ""))
    assert spread_threads(spread) is spread


def test_spmd_kernel_is_refused():
    with pytest.raises(ModeMismatch, match="only a kernel of threads can be spread over lanes"):
        spread_threads(parse_module("kernel k() spmd {\n  yield\n}"))


def test_assume_and_hints_survive_only_where_they_hold_for_lanes():
    module = kernel(
        """
  %big = lt %c0, %n : bool
  assume %big
  %mine = lt %t, %n : bool
  assume %mine
  %h = multiple_of %n {n=4} : i32
  %k = max_contiguous %t {n=4} : i32
  if %mine () {
    assume %big
    %j = multiple_of %n {n=8} : i32
    %p = addptr %x, %j : ptr<i32>
    store %p, %k
    yield
  } () {
    yield
  }""",
        "%x: ptr<i32>, %n: i32",
    )
    assert [
        n for n in names(spread_of(module)) if n in ("assume", "multiple_of", "max_contiguous")
    ] == ["assume", "multiple_of"]


# --- kernels with known answers ------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 64])
def test_thread_ids(threads):
    module = kernel(
        """
  %tid = tid {start=5, end=%END} : i32
  %lane = lane_id : i32
  %sg = sg_id : i32
  %y = local_id {axis=1} : i32
  %a = mul %lane, %c8 : i32
  %b = add %a, %sg : i32
  %d = add %b, %y : i32
  %e = sub %tid, %t : i32
  %f = mul %e, %d : i32
  %p = addptr %out, %t : ptr<i32>
  store %p, %f""".replace("%END", str(5 + threads)),
        "%out: ptr<i32>",
        threads,
    )
    i = np.arange(threads)
    np.testing.assert_array_equal(both(module, [i32(threads)])[0], 5 * (i % 32 * 8 + i // 32))


def test_tree_reduction_with_barriers():
    module = kernel(
        """
  %tg = alloc_tg {dtype=f32, name="tg", size=64} : tg_ptr<f32>
  %pid = program_id {axis=0} : i32
  %n = const 64 : i32
  %half = const 32 : i32
  %base = mul %pid, %n : i32
  %g = add %base, %t : i32
  %px = addptr %x, %g : ptr<f32>
  %v = load %px : f32
  %mine = addptr %tg, %t : tg_ptr<f32>
  store %mine, %v
  barrier
  %end = while %half : i32 (%s0: i32) {
    %go = lt %c0, %s0 : bool
    yield %go
  } (%s: i32) {
    %take = lt %t, %s : bool
    if %take () {
      %o = add %t, %s : i32
      %po = addptr %tg, %o : tg_ptr<f32>
      %a = load %mine : f32
      %b = load %po : f32
      %sum = add %a, %b : f32
      store %mine, %sum
      yield
    } () {
      yield
    }
    barrier
    %next = shr %s, %c1 : i32
    yield %next
  }
  %first = eq %t, %c0 : bool
  if %first () {
    %r = load %tg : f32
    %q = addptr %out, %pid : ptr<f32>
    store %q, %r
    yield
  } () {
    yield
  }""",
        "%x: ptr<f32>, %out: ptr<f32>",
    )
    x = np.arange(192, dtype=np.float32)
    out = both(module, [x, np.zeros(3, np.float32)], programs=3)[1]
    np.testing.assert_array_equal(out, x.reshape(3, 64).sum(axis=1))


COLLATZ = """
  %start = add %t, %c1 : i32
  %v, %length = while %start, %c0 : i32, i32 (%a: i32, %b: i32) {
    %go = ne %a, %c1 : bool
    yield %go
  } (%x: i32, %n: i32) {
    %bit = and %x, %c1 : i32
    %odd = eq %bit, %c1 : bool
    %y = if %odd : i32 () {
      %m = mul %x, %c3 : i32
      %m1 = add %m, %c1 : i32
      yield %m1
    } () {
      %h = shr %x, %c1 : i32
      yield %h
    }
    %n1 = add %n, %c1 : i32
    yield %y, %n1
  }
  %p = addptr %out, %t : ptr<i32>
  store %p, %length"""


def test_divergent_while_counts_collatz_steps():
    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    out = both(kernel(COLLATZ, "%out: ptr<i32>"), [i32(64)])[0]
    assert out.tolist() == [steps(i + 1) for i in range(64)]


@pytest.mark.parametrize(
    ("dtype", "start", "end", "step"),
    [
        ("i32", 0, 5, 1),
        ("i32", 9, -4, -3),
        ("i32", 0, 9, 0),
        ("i32", 2**31 - 40, 2**31 - 1, 30),  # start + 2 * step does not fit
        ("i32", -(2**31), 2**31 - 1, 2**30),  # neither does end - start
        ("u8", 3, 250, 100),
        ("i64", 0, 2**40, 2**38),
    ],
)
def test_for_with_varying_bounds(dtype, start, end, step):
    module = kernel(
        f"""
  %s = const {start} : {dtype}
  %e = const {end} : {dtype}
  %by = const {step} : {dtype}
  %zero = const 0 : {dtype}
  %few = lt %t, %c3 : bool
  %stop = select %few, %s, %e : {dtype}
  %n, %last = for %s, %stop, %by, %c0, %zero : i32, {dtype} (%i: {dtype}, %a: i32, %b: {dtype}) {{
    %a1 = add %a, %c1 : i32
    yield %a1, %i
  }}
  %p = addptr %out, %t : ptr<i32>
  store %p, %n
  %q = addptr %ends, %t : ptr<{dtype}>
  store %q, %last""",
        f"%out: ptr<i32>, %ends: ptr<{dtype}>",
        threads=5,
    )
    ends = np.zeros(5, {"i32": np.int32, "u8": np.uint8, "i64": np.int64}[dtype])
    trips = list(range(start, end, step)) if step else []
    count, last = both(module, [i32(5), ends])
    assert count.tolist() == [0, 0, 0] + [len(trips)] * 2
    assert last.tolist() == [0, 0, 0] + [trips[-1] if trips else 0] * 2


def test_loop_counts_differ_and_nest():
    module = kernel(
        """
  %c = lt %t, %c8 : bool
  %r = if %c : i32 () {
    %s = for %c0, %t, %c1, %c0 : i32 (%i: i32, %a: i32) {
      %in = for %c0, %i, %c1, %a : i32 (%j: i32, %b: i32) {
        %p = addptr %x, %j : ptr<i32>
        %v = load %p : i32
        %b1 = add %b, %v : i32
        yield %b1
      }
      yield %in
    }
    yield %s
  } () {
    yield %t
  }
  %q = addptr %out, %t : ptr<i32>
  store %q, %r""",
        "%x: ptr<i32>, %out: ptr<i32>",
        threads=20,
    )
    # %x has just as many cells as the lanes that take the branch may read.
    x = np.arange(6, dtype=np.int32) + 1
    out = both(module, [x, i32(20)])[1]
    assert out.tolist() == [
        sum(int(x[j]) for i in range(t) for j in range(i)) if t < 8 else t for t in range(20)
    ]


def test_simd_ops_see_their_simdgroup():
    module = kernel(
        """
  %sum = simd_sum %t : i32
  %next = simd_shuffle_down %t, %c1 : i32
  %bit = and %t, %c1 : i32
  %odd = eq %bit, %c1 : bool
  %votes = simd_ballot %odd : u32
  %v = cast %votes : i32
  %m = simd_max %n : i32
  %before = simd_prefix_exclusive_sum %c1 : i32
  %a = add %sum, %next : i32
  %b = add %a, %v : i32
  %c = add %b, %m : i32
  %d = add %c, %before : i32
  %p = addptr %out, %t : ptr<i32>
  store %p, %d""",
        "%out: ptr<i32>, %n: i32",
        threads=40,
    )
    assert names(spread_of(module)).count("simd_max") == 0  # equal lanes: their own value
    out = both(module, [i32(40), 1000])[0]
    want = sum(range(32)) + 1 + np.array(0xAAAAAAAA, np.uint32).astype(np.int32) + 1000
    assert out[0] == want
    assert out[39] == sum(range(32, 40)) + 39 + 0b10101010 + 1000 + 7


def test_every_thread_performs_its_own_atomic():
    module = kernel(
        """
  %old = atomic_add %x, %c1 : i32
  %p = addptr %out, %old : ptr<i32>
  store %p, %c1
  %few = lt %t, %c3 : bool
  if %few () {
    %o = atomic_max %x, %c8 : i32
    %o1 = atomic_add %x, %c1 : i32
    yield
  } () {
    yield
  }""",
        "%x: ptr<i32>, %out: ptr<i32>",
    )
    x, out = i32(1), i32(64)
    execute(spread_of(module), [x, out], (1, 1, 1))
    assert x[0] == 64 + 3
    assert out.tolist() == [1] * 64


def test_inactive_lanes_touch_no_memory():
    body = """
  %c = lt %t, %n : bool
  if %c () {
    %p = addptr %x, %t : ptr<i32>
    %v = load %p : i32
    %w = add %v, %c1 : i32
    store %p, %w
    %far = addptr %x, %n : ptr<i32>
    %nobody = lt %n, %t : bool
    if %nobody () {
      %u = load %far : i32
      store %far, %u
      device_assert %nobody {message="nobody comes here"}
      device_assert %never {message="nor here"}
      yield
    } () {
      yield
    }
    yield
  } () {
    yield
  }"""
    module = kernel(f"  %never = lt %n, %c0 : bool\n{body}", "%x: ptr<i32>, %n: i32")
    assert both(module, [np.arange(10, dtype=np.int32), 10])[0].tolist() == list(range(1, 11))
    with pytest.raises(OutOfBounds):
        execute(spread_of(module), [i32(9), 10], (1, 1, 1))


def test_print_on_a_side_that_no_lane_takes_is_silent():
    module = kernel(
        """
  %c = lt %t, %n : bool
  if %c () {
    device_print %n {prefix="n"}
    yield
  } () {
    yield
  }""",
        "%n: i32",
    )
    lines: list[str] = []
    execute(spread_of(module), [0], (1, 1, 1), lines.append)
    execute(spread_of(module), [2], (1, 1, 1), lines.append)
    assert lines == ["[k pid=(0,0,0)] n 2"]
