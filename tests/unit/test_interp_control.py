"""The interpreter, judged by NumPy: loops, branches, threadgroups."""

from __future__ import annotations

import numpy as np
import pytest

from eas.base import dtypes, errors, numerics
from tests.unit.interp_kernels import block_kernel, run

rng = np.random.default_rng(7)


FOR = """kernel k(%y: ptr<i64>, %a: i64, %b: i64, %s: i64) spmd {
  %zero = const 0 : i64
  %n, %sum = for %a, %b, %s, %zero, %zero : i64, i64 (%i: i64, %n0: i64, %sum0: i64) {
    %one = const 1 : i64
    %n1 = add %n0, %one : i64
    %sum1 = add %sum0, %i : i64
    yield %n1, %sum1
  }
  %one = const 1 : i32
  %p = addptr %y, %one : ptr<i64>
  store %y, %n
  store %p, %sum
  yield
}"""


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (0, 5, 1),
        (5, 0, -2),
        (3, 3, 1),
        (0, 5, -1),
        (2**63 - 3, 2**63 - 1, 2),
        (-(2**63) + 2, -(2**63), -2),
        (0, 10, 3),
    ],
)
def test_for_is_pythons_range(start, end, step):
    y = np.zeros(2, np.int64)
    run(FOR, y, start, end, step)
    want = list(range(start, end, step))
    assert y.tolist() == [len(want), sum(want)]


def test_for_with_step_zero_runs_no_iteration():
    y = np.ones(2, np.int64)
    run(FOR, y, 0, 5, 0)
    assert y.tolist() == [0, 0]


def test_for_carries_values_in_parallel():
    text = """kernel fib(%y: ptr<i32>, %n: i32) spmd {
      %zero = const 0 : i32
      %one = const 1 : i32
      %a, %b = for %zero, %n, %one, %zero, %one : i32, i32 (%i: i32, %p: i32, %q: i32) {
        %r = add %p, %q : i32
        yield %q, %r
      }
      store %y, %a
      yield
    }"""
    y = np.zeros(1, np.int32)
    run(text, y, 20)
    assert y[0] == 6765


def test_while_with_nested_if_runs_collatz():
    text = """kernel collatz(%y: ptr<i32>, %start: i32) spmd {
      %zero = const 0 : i32
      %one = const 1 : i32
      %last, %steps = while %start, %zero : i32, i32 (%n: i32, %s: i32) {
        %more = ne %n, %one : bool
        yield %more
      } (%n2: i32, %s2: i32) {
        %two = const 2 : i32
        %odd = mod %n2, %two : i32
        %is_odd = ne %odd, %zero : bool
        %next = if %is_odd : i32 () {
          %three = const 3 : i32
          %t = mul %n2, %three : i32
          %u = add %t, %one : i32
          yield %u
        } () {
          %h = floordiv %n2, %two : i32
          yield %h
        }
        %s3 = add %s2, %one : i32
        yield %next, %s3
      }
      store %y, %steps
      yield
    }"""
    y = np.zeros(1, np.int32)
    run(text, y, 27)
    assert y[0] == 111


def test_nested_loops_carry_blocks():
    text = """kernel powers(%y: ptr<f32>, %n: i32) spmd {
      %zero = const 0 : i32
      %one = const 1 : i32
      %ones = const 1.0 : f32[4]
      %half = const 0.5 : f32[4]
      %r = for %zero, %n, %one, %ones : f32[4] (%i: i32, %x: f32[4]) {
        %t = for %zero, %i, %one, %x : f32[4] (%j: i32, %u: f32[4]) {
          %v = mul %u, %half : f32[4]
          yield %v
        }
        yield %t
      }
      %k = arange {start=0, end=4} : i32[4]
      %y.b = broadcast %y {shape=(4,)} : ptr<f32>[4]
      %y.p = addptr %y.b, %k : ptr<f32>[4]
      store %y.p, %r
      yield
    }"""
    y = np.zeros(4, np.float32)
    run(text, y, 5)
    assert np.all(y == 0.5**10)


def test_pointers_are_carried_through_loops_and_branches():
    text = """kernel k(%x: ptr<i32>, %z: ptr<i32>, %y: ptr<i32>, %first: bool) spmd {
      %zero = const 0 : i32
      %three = const 3 : i32
      %one = const 1 : i32
      %p = if %first : ptr<i32> () {
        yield %x
      } () {
        yield %z
      }
      %sum, %q = for %zero, %three, %one, %zero, %p : i32, ptr<i32> (%i: i32, %s: i32, %r: ptr<i32>) {
        %v = load %r : i32
        %t = add %s, %v : i32
        %next = addptr %r, %one : ptr<i32>
        yield %t, %next
      }
      store %y, %sum
      yield
    }"""
    x, z, y = np.array([1, 2, 3], np.int32), np.array([10, 20, 30], np.int32), np.zeros(1, np.int32)
    run(text, x, z, y, True)
    assert y[0] == 6
    run(text, x, z, y, False)
    assert y[0] == 60


def test_untaken_branch_touches_no_memory():
    text = """kernel k(%x: ptr<f32>, %c: bool) spmd {
      if %c () {
        %v = load %x : f32
        yield
      } () {
        yield
      }
      yield
    }"""
    run(text, np.zeros(0, np.float32), False)
    with pytest.raises(errors.OutOfBounds, match="it has 0 elements"):
        run(text, np.zeros(0, np.float32), True)


@pytest.mark.parametrize(
    ("dtype", "poison"),
    [
        ("i32", -0x32323233),
        ("u8", 0xCD),
        ("bool", True),
        ("f32", np.nan),
        ("bf16", np.nan),
        ("f8e4m3", np.nan),
    ],
)
def test_threadgroup_memory_starts_poisoned(dtype, poison):
    text = f"""kernel k(%y: ptr<{dtype}>) spmd {{spread=true}} {{
      %tile = alloc_tg {{size=4, dtype={dtype}, name="tile"}} : tg_ptr<{dtype}>
      %v = load %tile : {dtype}
      store %y, %v
      yield
    }}"""
    kind = dtypes.parse(dtype)
    y = np.zeros(1, kind.np_storage)
    run(text, y)
    np.testing.assert_array_equal(numerics.decode(y, kind), [poison])


def test_threadgroup_memory_is_checked_and_fresh_per_program():
    text = """kernel k(%n: i32) spmd {spread=true} {
      %tile = alloc_tg {size=4, dtype=i32, name="tile"} : tg_ptr<i32>
      %before = load %tile : i32
      store %tile, %n
      %poison = const -842150451 : i32
      %fresh = eq %before, %poison : bool
      device_assert %fresh {message="memory of another program"}
      %p = addptr %tile, %n : tg_ptr<i32>
      %v = load %p : i32
      yield
    }"""
    run(text, 3, grid=(4, 1, 1))
    with pytest.raises(
        errors.OutOfBounds, match="load from tile: index 4 is out of range, it has 4 elements"
    ):
        run(text, 4)


def test_mma_store_rounds_to_the_buffer():
    text = """kernel k(%a: ptr<f32>, %o: ptr<bf16>) spmd {spread=true} {
      %eight = const 8 : i32
      %zero = mma_zero : frag<f32>[1,8,8]
      %f = mma %a, %eight, %a, %eight, %zero : frag<f32>[1,8,8]
      mma_store %o, %eight, %f
      yield
    }"""
    a, o = rng.standard_normal(64).astype(np.float32), np.zeros(64, np.uint16)
    run(text, a, o)
    m = a.reshape(8, 8).astype(np.float64)
    want = numerics.round_to((m @ m).astype(np.float32), dtypes.bf16)
    np.testing.assert_array_equal(numerics.decode(o, dtypes.bf16).reshape(8, 8), want)


def test_f16_simd_prefix_sum_is_rounded_once():
    lines = """%v = load %x.p : f16[32]
    %s = simd_prefix_inclusive_sum %v : f16[32]
    store %x.p, %s"""
    x = np.full(32, 0.1, np.float16)
    want = np.cumsum(x, dtype=np.float32).astype(np.float16)
    run(block_kernel(32, "%x: ptr<f16>", lines).replace("spmd {", "spmd {spread=true} {", 1), x)
    np.testing.assert_array_equal(x, want)


def test_thread_mode_is_spread_first():
    text = """kernel reverse(%x: ptr<f32>, %y: ptr<f32>) thread {threads=32} {
      %t = tid {start=0, end=32} : i32
      %tile = alloc_tg {size=32, dtype=f32, name="tile"} : tg_ptr<f32>
      %px = addptr %x, %t : ptr<f32>
      %v = load %px : f32
      %pt = addptr %tile, %t : tg_ptr<f32>
      store %pt, %v
      barrier
      %last = const 31 : i32
      %u = sub %last, %t : i32
      %pu = addptr %tile, %u : tg_ptr<f32>
      %w = load %pu : f32
      %s = simd_sum %w : f32
      %z = add %w, %s : f32
      %py = addptr %y, %t : ptr<f32>
      store %py, %z
      yield
    }"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run(text, x, y)
    np.testing.assert_array_equal(y, x[::-1] + x.sum())
