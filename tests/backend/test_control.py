"""Loops and branches on runtime values, checks and messages, hints, and target text."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import METAL, launch, op_names

COVERS = {"for", "while", "if", "yield", "device_print", "device_assert", "assume", "multiple_of", "max_contiguous", "max_constancy", "inline_target"}


@eas.kernel
def loops_kernel(x, y, start, end, step, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK], mk.i32)
    trips = 0
    for k in range(start, end, step):
        total += mk.load(x, i) * k
        trips += 1
    mk.store(y, i, total)
    mk.store(y, BLOCK, trips)


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 3, 1), (5, 0, 1), (-7, 20, 3), (10, -3, -4), (0, 1, 100), (2, 9, 0), (-(2**31), 2**31 - 1, 2**30), (0, 2**31 - 1, 2**30), (3, -(2**31), -(2**30))])
def test_for_counts_as_python_does(backend, bounds):
    x, y = np.arange(33, dtype=np.int32), np.zeros(34, np.int32)
    launch(backend, loops_kernel, x, y, *bounds, grid=1, BLOCK=33)
    ks = range(*bounds) if bounds[2] else []  # a step of 0 runs no iteration
    np.testing.assert_array_equal(y, [*(x * np.array(sum(ks)).astype(np.int32)), len(ks)])


@eas.kernel
def far_steps_kernel(x, y, start, end, step, BLOCK: eas.constexpr):
    """A pointer and a block that move with a loop."""
    i = mk.arange(0, BLOCK)
    p, v = x + i, i
    for _ in range(start, end, step):
        mk.store(y + i, mk.load(p) + v)
        p += BLOCK
        v += 2
    mk.store(y + BLOCK + i, mk.load(p) + v)


@pytest.mark.parametrize("bounds", [(-(2**31), 2**31 - 1, 2**30), (0, 2**31 - 1, 2**30), (3, -(2**31), -(2**30)), (5, 5, 1)])
def test_what_moves_with_a_loop_over_far_numbers(backend, bounds):
    x, y = np.arange(200, dtype=np.int32), np.zeros(66, np.int32)
    launch(backend, far_steps_kernel, x, y, *bounds, grid=1, BLOCK=33)
    i, trips = np.arange(33), len(range(*bounds))
    last = x[i + 33 * (trips - 1)] + i + 2 * (trips - 1) if trips else 0 * i
    np.testing.assert_array_equal(y, [*last, *(x[i + 33 * trips] + i + 2 * trips)])


@eas.kernel
def unsigned_range_kernel(bounds, y):
    trips = 0
    for k in range(mk.load(bounds), mk.load(bounds + 1), mk.load(bounds + 2)):
        mk.store(y + 1, k)
        trips += 1
    mk.store(y, trips.to(mk.u32))


@pytest.mark.parametrize("bounds", [(0, 2**32 - 1, 2**30), (2**32 - 20, 2**32 - 1, 6), (7, 3, 2**31 + 1), (1, 9, 2)])
def test_ranges_of_unsigned_numbers(backend, bounds):
    y = np.zeros(2, np.uint32)
    launch(backend, unsigned_range_kernel, np.array(bounds, np.uint32), y, grid=1)
    ks = range(*bounds)
    assert y.tolist() == [len(ks), ks[-1] if ks else 0]


@eas.kernel
def swap_kernel(x, y, z, steps, N: eas.constexpr):
    """Blocks that change places, around a reduction that needs them in memory."""
    i = mk.arange(0, N)
    a, b, total = mk.load(x, i), mk.load(y, i), 0.0
    for _ in range(steps):
        total += mk.sum(a)
        a, b = b, a
    mk.store(z, i, a)
    mk.store(z, N + i, b)
    mk.store(z, 2 * N, total)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_blocks_change_places(backend, steps):
    x = np.arange(64, dtype=np.float32)
    y, z = -x - 1, np.zeros(129, np.float32)
    launch(backend, swap_kernel, x, y, z, steps, grid=1, N=64)
    a, b = (x, y) if steps % 2 == 0 else (y, x)
    total = sum((x, y)[k % 2].sum() for k in range(steps))
    np.testing.assert_array_equal(z, [*a, *b, total])


@eas.kernel
def newton_kernel(x, y, n, BLOCK: eas.constexpr):
    """A while over a whole block, a break, a continue, a nested if with values from both sides."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, i, i < n, other=1.0)
    guess = value
    rounds = 0
    while mk.max(mk.abs(guess * guess - value)) > 1e-4:
        rounds += 1
        if rounds > 40:
            break
        guess = 0.5 * (guess + value / guess)
        if rounds % 2 == 0:
            continue
        kind = 1 if rounds < 3 else 2
        if kind == 2:
            guess = guess + 0.0
    mk.store(y, i, guess, i < n)


@pytest.mark.parametrize("n", [1, 7, 50])
def test_while_runs_until_its_condition_fails(backend, n):
    x = np.random.default_rng(n).uniform(0.5, 20, n).astype(np.float32)
    y = np.zeros_like(x)
    args = (x, y, n)
    launch(backend, newton_kernel, *args, grid=-(-n // 16), BLOCK=16)
    assert {"while", "if", "yield"} <= op_names(newton_kernel, *args, BLOCK=16)
    np.testing.assert_allclose(y, np.sqrt(x), rtol=1e-4)


@eas.kernel
def branches_kernel(y, a, b):
    pid = mk.program_id(0)
    if pid == 0 and a > 0:
        result = a * 10
    elif pid == 1 or not b:
        result = b - 1
    else:
        result = 7 if a < b < 100 else max(a, b)
        if result == 7:
            mk.store(y, pid, -7)
            return
    mk.store(y, pid, result)


@pytest.mark.parametrize(("a", "b"), [(1, 2), (-1, 0), (5, 3), (200, 150), (1, 500)])
def test_branches_choose_as_python_does(backend, a, b):
    def meaning(pid: int) -> int:
        if pid == 0 and a > 0:
            return a * 10
        if pid == 1 or not b:
            return b - 1
        return -7 if a < b < 100 else max(a, b)

    y = np.zeros(3, np.int32)
    launch(backend, branches_kernel, y, a, b, grid=3)
    assert y.tolist() == [meaning(p) for p in range(3)]


@eas.kernel
def nested_return_kernel(y, a):
    if a > 0:
        result = a * 10
    else:
        if a == 0:
            return
        result = -a
    mk.store(y, 0, result)


@pytest.mark.parametrize(("a", "want"), [(2, 20), (0, 0), (-3, 3)])
def test_a_nested_return_asks_nothing_of_later_variables(backend, a, want):
    y = np.zeros(1, np.int32)
    launch(backend, nested_return_kernel, y, a, grid=1)
    assert y[0] == want


@eas.kernel
def nested_kernel(x, y, rows, cols):
    """A scan of row sums with carried tuples through two loops."""
    best = (-1, -1000000)
    for r in range(rows):
        total = 0
        for c in range(cols):
            total += mk.load(x, r * cols + c)
        if total > best[1]:
            best = (r, total)
    mk.store(y, 0, best[0])
    mk.store(y, 1, best[1])


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 33)])
def test_nested_loops_carry_tuples(backend, shape):
    x = np.random.default_rng(0).integers(-50, 50, shape, dtype=np.int32)
    y = np.zeros(2, np.int32)
    launch(backend, nested_kernel, x, y, *shape, grid=1)
    sums = x.sum(axis=1)
    assert y.tolist() == [int(sums.argmax()), int(sums.max())]


@eas.kernel
def assert_kernel(x, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.device_assert(mk.load(x, i, i < N) > 0, "x must be positive", mask=i < N)


def test_device_assert_fails_the_launch_and_names_the_line(backend):
    x = np.arange(1, 40, dtype=np.int32)
    launch(backend, assert_kernel, x, x.size, BLOCK=16)  # masked-off lanes read 0, and are not asked
    assert "device_assert" in op_names(assert_kernel, x, x.size, BLOCK=16)
    x[30] = 0
    with pytest.raises(eas.DeviceAssertion, match=r"(?s)x must be positive.*test_control\.py"):
        assert_kernel(x, x.size, BLOCK=16)


@eas.kernel
def two_asserts_kernel(x, y, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.device_assert(mk.load(x, i) > 0, "x must be positive")
    mk.device_assert(mk.load(y, i) > 0, "y must be positive")


@pytest.mark.left_out(lambda backend: backend in METAL)  # its threads run side by side
def test_the_first_assertion_that_fails_is_reported(backend):
    """Whichever element it is: the second assertion fails at an earlier one."""
    x, y = np.ones(64, np.int32), np.ones(64, np.int32)
    x[50] = y[3] = 0
    with pytest.raises(eas.DeviceAssertion, match="x must be positive"):
        two_asserts_kernel(x, y, BLOCK=64, _grid=1)
    x[50] = 1
    with pytest.raises(eas.DeviceAssertion, match="y must be positive"):
        two_asserts_kernel(x, y, BLOCK=64, _grid=1)


@eas.kernel
def print_kernel(x):
    mk.device_print("row", mk.program_id(0), mk.load(x, mk.program_id(0) * 3 + mk.arange(0, 3)))
    mk.device_print("done")


def test_device_print_writes_a_line_per_program(backend, capfd):
    x = np.arange(6, dtype=np.int32)
    launch(backend, print_kernel, x, grid=2)
    assert "device_print" in op_names(print_kernel, x)
    lines = capfd.readouterr().out.splitlines()
    where = ["[print_kernel pid=(0,0,0)]", "[print_kernel pid=(1,0,0)]"]
    want = [f"{where[0]} row 0 [0 1 2]", f"{where[0]} done", f"{where[1]} row 1 [3 4 5]", f"{where[1]} done"]
    assert sorted(lines) == sorted(want)


@eas.kernel
def hints_kernel(x, y, n, BLOCK: eas.constexpr):
    mk.assume(n % 16 == 0)
    first = mk.multiple_of(mk.program_id(0) * BLOCK, 16)
    i = mk.max_contiguous(mk.multiple_of(first + mk.arange(0, BLOCK), 16), 16)
    same = mk.max_constancy(mk.arange(0, BLOCK) // 16, 16)
    mk.store(y, i, mk.load(x, i, i < n) + same, i < n)


def test_hints_change_nothing(backend):
    x, y = np.arange(96, dtype=np.int32), np.zeros(96, np.int32)
    launch(backend, hints_kernel, x, y, 96, grid=2, BLOCK=64)
    assert {"assume", "multiple_of", "max_contiguous", "max_constancy"} <= op_names(hints_kernel, x, y, 96, BLOCK=64)
    np.testing.assert_array_equal(y, x + np.arange(96) % 64 // 16)


def test_a_false_assumption_is_refused_by_the_interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    x = np.zeros(64, np.int32)
    with pytest.raises(eas.KernelError, match="does not hold"):
        hints_kernel(x, x.copy(), 50, BLOCK=64, _grid=1)


@eas.kernel
def inline_kernel(x, y, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, i, i < n)
    text = {"numpy": "a0 * a1", "msl": "a0 * a1", "llvm": "fmul $0, a1"}
    mk.store(y, i, mk.inline(mk.f32, value, value + 1, **text), i < n)


def test_inline_text_is_run_by_its_target(backend):
    x = np.random.default_rng(0).integers(-9, 9, 50).astype(np.float32)
    y = np.zeros_like(x)
    launch(backend, inline_kernel, x, y, 50, grid=4, BLOCK=16)
    assert "inline_target" in op_names(inline_kernel, x, y, 50, BLOCK=16)
    np.testing.assert_array_equal(y, x * (x + 1))


@eas.kernel
def metal_kernel(x, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(x, i, mk.inline(mk.f32, mk.load(x, i), msl="a0 + 1.0f"))


def test_a_target_without_inline_text_says_so(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    with pytest.raises(eas.Unsupported, match=r"(?s)mk.inline has no llvm text.*hint: give llvm='...' to run it on the CPU"):
        metal_kernel(np.zeros(16, np.float32), BLOCK=16, _grid=1)


VIEWS = {
    "flip": (lambda r: mk.flip(r, 0), lambda r: r[::-1]),
    "gather": (lambda r: mk.gather(r, (mk.arange(0, 256) * 3 + 1) % 256, 0), lambda r: r[(np.arange(256) * 3 + 1) % 256]),
    "transpose": (lambda r: mk.trans(r.reshape([2, 128])).reshape([256]), lambda r: r.reshape(2, 128).T.reshape(256)),
}


@eas.kernel
def views_kernel(x, y, out, n, VIEW: eas.constexpr):
    """Other elements of blocks that loops carry, in branches and loops inside of those."""
    view = VIEWS[VIEW][0]
    i = mk.arange(0, 256)
    a, b, c, d = mk.load(x + i), mk.load(x + i), mk.load(x + i), mk.load(x + i) * 2
    for k in range(n):
        if k % 2 == 0:
            a = view(a) + 1
    for k in range(n):
        moved = b + k
        if k > 0:
            b = b + view(moved)
    k = 0
    while mk.any(c > 3) and k < n:
        c = mk.where(c > 3, c - 1, c)
        if k == 1:
            c = view(c)
        k += 1
    if n > 1:
        d = view(d) + mk.load(y + i)
    for j, r in enumerate((a, b, c, d)):
        mk.store(out + j * 256 + i, r)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_views_of_blocks_in_branches_of_loops(backend, view, n):
    rng, of = np.random.default_rng(0), VIEWS[view][1]
    x, y, out = rng.integers(0, 40, 256).astype(np.int32), rng.integers(0, 9, 256).astype(np.int32), np.zeros((4, 256), np.int32)
    launch(backend, views_kernel, x, y, out, n, grid=1, VIEW=view)
    a, b, c, d = x, x, x, 2 * x
    for k in range(n):
        a = of(a) + 1 if k % 2 == 0 else a
        b = b + of(b + k) if k > 0 else b
        c = np.where(c > 3, c - 1, c)
        c = of(c) if k == 1 else c
    d = of(d) + y if n > 1 else d
    np.testing.assert_array_equal(out, [a, b, c, d])


@eas.kernel
def storing_kernel(x, y, out, n, m, N: eas.constexpr):
    """A loop that carries a block, around one that carries none."""
    i = mk.arange(0, N)
    total, count = mk.zeros([N], mk.i32), 0
    for k in range(n):
        total += mk.load(x + i) * k
        for j in range(m):
            mk.store(y + j * N + i, total + j)
            count += j
    mk.store(out + i, total + count)


@pytest.mark.parametrize("n", [0, 3])
def test_loops_without_blocks_inside_of_loops_with_blocks(backend, n):
    x, y, out = np.arange(200, dtype=np.int32), np.zeros((2, 200), np.int32), np.zeros(200, np.int32)
    launch(backend, storing_kernel, x, y, out, n, 2, grid=1, N=200)
    total = x * sum(range(n))
    np.testing.assert_array_equal(out, total + n)
    np.testing.assert_array_equal(y, [total, total + 1] if n else 0 * y)


@eas.kernel
def growing_kernel(out, whole, n, step, amount, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    total, count = i.to(out.dtype) * 0.25, i + 7
    for _ in range(n):
        total += step.to(out.dtype)
        count += amount
    mk.store(out, i, total)
    mk.store(whole, i, count)


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["f32", "f16"])
def test_sums_of_equal_floats_round_at_every_step(backend, dtype):
    """A product would round once; integers, which wrap, may be multiplied."""
    for n, step, amount in ((0, 0.1, 5), (1, 0.1, -5), (300, 0.1, 2**30), (300, -0.7, -(2**31))):
        out, whole = np.zeros(40, dtype), np.zeros(40, np.int32)
        launch(backend, growing_kernel, out, whole, n, step, amount, grid=1, BLOCK=40)
        want = np.arange(40).astype(dtype) * dtype(0.25)
        for _ in range(n):
            want = want + dtype(step)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(whole, (np.arange(40) + 7 + n * amount).astype(np.int64).astype(np.int32))


@eas.kernel
def paced_kernel(out, first, last, pace, amount, BLOCK: eas.constexpr):
    count = mk.arange(0, BLOCK)
    for _ in range(first, last, pace):
        count += amount
    mk.store(out, mk.arange(0, BLOCK), count)


def test_blocks_behind_loops_of_any_step(backend):
    """What a loop would have carried is computed from its length, also if the step is known at the launch only."""
    for first, last, pace in [(0, 10, 1), (0, 10, 3), (10, 0, -1), (10, 0, -3), (0, 10, -1), (10, 0, 2), (5, 5, 1), (-7, 8, 5), (8, -7, -5), (0, 1, 100), (2**31 - 3, 2**31 - 1, 1)]:
        out = np.zeros(33, np.int32)
        launch(backend, paced_kernel, out, first, last, pace, 7, grid=1, BLOCK=33)
        np.testing.assert_array_equal(out, np.arange(33) + 7 * len(range(first, last, pace)), f"{first}, {last}, {pace}")
