"""What is no plain number when it is spread: simdgroup matrices and pointers that control carries."""

from __future__ import annotations

import numpy as np

from eas.passes.carry_offsets import carry_offsets
from tests.unit.thread_harness import MMA, both, i32, kernel


def matrices(groups: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(-4, 5, groups * 64).astype(np.float32),
        rng.integers(-4, 5, 64).astype(np.float32),
        np.zeros(groups * 64, np.float32),
    ]


def test_mma_multiplies_one_matrix_per_simdgroup():
    body = MMA + "  %f = mma %pa, %c8, %b, %c8, %z : frag<f32>[8,8]\n  mma_store %pc, %c8, %f"
    a, b, c = both(
        kernel(body, "%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>", threads=96), matrices(3)
    )
    np.testing.assert_array_equal(c.reshape(3, 8, 8), a.reshape(3, 8, 8) @ b.reshape(8, 8))


def test_mma_under_simdgroup_control_leaves_other_simdgroups_alone():
    # Simdgroup s adds s products; the last one is outside of %a, which masks must not touch.
    body = (
        MMA
        + """
  %in = lt %sg, %c3 : bool
  %f = if %in : frag<f32>[8,8] () {
    %g = for %c0, %sg, %c1, %z : frag<f32>[8,8] (%i: i32, %acc: frag<f32>[8,8]) {
      %h = mma %pa, %c8, %b, %c8, %acc : frag<f32>[8,8]
      yield %h
    }
    mma_store %pc, %c8, %g
    yield %g
  } () {
    yield %z
  }
  mma_store %pc, %c8, %f"""
    )
    args = matrices(4)
    a, b, c = both(
        kernel(body, "%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>", threads=128),
        [args[0][:192], args[1], args[2] + 9],
    )
    want = np.arange(3).reshape(3, 1, 1) * (a.reshape(3, 8, 8) @ b.reshape(8, 8))
    np.testing.assert_array_equal(c[:192].reshape(3, 8, 8), want)
    assert not c[192:].any()


POINTER_LOOP = """
  %p0 = addptr %x, %t : ptr<i32>
  %p, %s = for %c0, %t, %c1, %p0, %c0 : ptr<i32>, i32 (%i: i32, %q: ptr<i32>, %a: i32) {
    %v = load %q : i32
    %b = add %a, %v : i32
    %q1 = addptr %q, %c2 : ptr<i32>
    yield %q1, %b
  }
  store %p, %s"""


def test_pointer_carried_by_a_divergent_loop():
    x = np.arange(64, dtype=np.int32)
    module = kernel(POINTER_LOOP, "%x: ptr<i32>", threads=1)
    both(module, [x])
    module = kernel(
        POINTER_LOOP.replace(
            "store %p, %s",
            "%o = addptr %out, %t : ptr<i32>\n  %l = load %p : i32\n  %r = add %l, %s : i32\n  store %o, %r",
        ),
        "%x: ptr<i32>, %out: ptr<i32>",
        threads=8,
    )
    out = both(module, [x, i32(8)])[1]
    assert out.tolist() == [3 * t + sum(t + 2 * i for i in range(t)) for t in range(8)]


def test_carry_offsets_leaves_pointers_of_two_buffers():
    text = """
  %c = lt %n, %c3 : bool
  %p = if %c : ptr<i32> () {
    yield %x
  } () {
    yield %y
  }
  %v = load %p : i32
  %q = addptr %y, %t : ptr<i32>
  store %q, %v"""
    module = kernel(text, "%x: ptr<i32>, %y: ptr<i32>, %n: i32", threads=4)
    assert carry_offsets(module) is module
    assert both(module, [np.array([5], np.int32), i32(4), 1])[1].tolist() == [5] * 4
