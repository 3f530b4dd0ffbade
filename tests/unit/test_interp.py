"""The interpreter, judged by NumPy: memory, errors, programs."""

from __future__ import annotations

import itertools
import threading
import warnings

import numpy as np
import pytest

from eas.base import dtypes, errors, numerics
from eas.base.types import Type
from eas.ir import Loc
from eas.ir.text import LocTable, parse_module
from eas.ops import TABLE, Call, evaluate
from eas.runtime.interp import execute
from tests.unit.interp_kernels import ADD, block_kernel, run

rng = np.random.default_rng(7)


def test_masked_add_stops_at_the_end():
    a, b = rng.standard_normal((2, 41)).astype(np.float32)
    c = np.full(50, 9, np.float32)
    run(ADD, a, b, c, 41, grid=(3, 1, 1))
    np.testing.assert_array_equal(c[:41], a + b)
    assert np.all(c[41:] == 9)


@pytest.mark.parametrize("other", [True, False])
def test_masked_off_lanes_read_other_or_zero(other):
    lines = """%one = const 5 : i32[8]
    %mask = lt %i, %one : bool[8]
    %o = const -3.0 : f32[8]
    %v = load %x.p, %mask{other} : f32[8]
    store %y.p, %v"""
    x, y = np.arange(1, 6, dtype=np.float32), np.zeros(8, np.float32)
    text = block_kernel(
        8, "%x: ptr<f32>, %y: ptr<f32>", lines.replace("{other}", ", %o" if other else "")
    )
    run(text, x, y)
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5] + [-3.0 if other else 0.0] * 3)


def test_masked_store_leaves_the_rest():
    lines = """%two = const 2 : i32[8]
    %zero = const 0 : i32[8]
    %odd = mod %i, %two : i32[8]
    %mask = ne %odd, %zero : bool[8]
    store %y.p, %i, %mask"""
    y = np.full(8, -1, np.int32)
    run(block_kernel(8, "%y: ptr<i32>", lines), y)
    np.testing.assert_array_equal(y, [-1, 1, -1, 3, -1, 5, -1, 7])


def test_fully_masked_block_touches_nothing():
    lines = """%mask = const false : bool[4]
    %v = load %x.p, %mask : f32[4]
    store %x.p, %v, %mask"""
    run(block_kernel(4, "%x: ptr<f32>", lines), np.zeros(0, np.float32))


def test_scalar_load_and_store_with_mask():
    text = """kernel k(%x: ptr<i64>, %y: ptr<i64>, %on: bool) spmd {
      %three = const 3 : i32
      %p = addptr %x, %three : ptr<i64>
      %seven = const 7 : i64
      %v = load %p, %on, %seven : i64
      store %y, %v
      yield
    }"""
    x, y = np.arange(4) * 10, np.zeros(1, np.int64)
    run(text, x, y, True)
    assert y[0] == 30
    run(text, x, y, False)
    assert y[0] == 7


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_load_and_store_keep_the_bits(dtype):
    codes = rng.integers(0, 256, 64 * dtype.nbytes).astype(np.uint8)
    x = codes.view(dtype.np_storage) if not dtype.is_bool else codes > 127
    if dtype.is_float:
        x = x[np.isfinite(numerics.decode(x, dtype))][:32].copy()
    y = np.zeros(32, dtype.np_storage)
    run(
        block_kernel(
            32,
            f"%x: ptr<{dtype}>, %y: ptr<{dtype}>",
            f"%v = load %x.p : {dtype}[32]\nstore %y.p, %v",
        ),
        x,
        y,
    )
    assert y.tobytes() == x[:32].tobytes()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16, dtypes.f8e4m3, dtypes.f8e5m2], ids=str)
def test_store_after_cast_rounds_once(dtype):
    x = rng.standard_normal(64).astype(np.float32) * 10
    y = np.zeros(64, dtype.np_storage)
    lines = f"%v = load %x.p : f32[64]\n%w = cast %v : {dtype}[64]\nstore %y.p, %w"
    run(block_kernel(64, f"%x: ptr<f32>, %y: ptr<{dtype}>", lines), x, y)
    np.testing.assert_array_equal(numerics.decode(y, dtype), numerics.round_to(x, dtype))


def test_bf16_arithmetic_rounds_after_each_op():
    torch = pytest.importorskip("torch")
    a, b, c = (torch.randn(64, generator=torch.manual_seed(1)).bfloat16() for _ in range(3))
    want = a * b + c
    args = [t.view(torch.uint16).numpy() for t in (a, b, c)]
    out = np.zeros(64, np.uint16)
    lines = """%x = load %a.p : bf16[64]
    %y = load %b.p : bf16[64]
    %z = load %c.p : bf16[64]
    %m = mul %x, %y : bf16[64]
    %s = add %m, %z : bf16[64]
    store %o.p, %s"""
    run(
        block_kernel(64, "%a: ptr<bf16>, %b: ptr<bf16>, %c: ptr<bf16>, %o: ptr<bf16>", lines),
        *args,
        out,
    )
    np.testing.assert_array_equal(out, want.view(torch.uint16).numpy())


def test_const_of_a_narrow_float_is_rounded_once():
    y = np.zeros(1, np.uint16)
    module = parse_module(
        "kernel k(%y: ptr<bf16>) spmd {\n%c = const 1.0 : bf16\nstore %y, %c\nyield\n}"
    )
    const = module.body.body[0]
    object.__setattr__(
        const,
        "attrs",
        tuple((k, 1 + 2**-8 + 2**-30 if k == "value" else v) for k, v in const.attrs),
    )
    execute(module, [y], (1, 1, 1))
    assert numerics.decode(y, dtypes.bf16)[0] == 1 + 2**-7


def test_a_load_is_not_changed_by_a_later_store():
    lines = """%v = load %x.p : i32[4]
    %m = neg %v : i32[4]
    store %x.p, %m
    store %y.p, %v"""
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    run(block_kernel(4, "%x: ptr<i32>, %y: ptr<i32>", lines), x, y)
    np.testing.assert_array_equal(x, [0, -1, -2, -3])
    np.testing.assert_array_equal(y, [0, 1, 2, 3])


def test_scalar_arguments_take_their_dtype():
    text = """kernel k(%y: ptr<f64>, %h: f16, %b: bf16, %n: u64) spmd {
      %one = const 1 : i32
      %hd = cast %h : f64
      %bd = cast %b : f64
      %nd = cast %n : f64
      %p1 = addptr %y, %one : ptr<f64>
      %p2 = addptr %p1, %one : ptr<f64>
      store %y, %hd
      store %p1, %bd
      store %p2, %nd
      yield
    }"""
    y = np.zeros(3)
    run(text, y, 1 / 3, 1 / 3, 2**63)
    assert y.tolist() == [float(np.float16(1 / 3)), 0.333984375, 2.0**63]


def test_out_of_bounds_load_says_what_where_and_how():
    text = ADD.replace("load %b.p, %mask", "load %b.p")
    with pytest.raises(errors.OutOfBounds) as caught:
        run(text, *np.zeros((3, 41), np.float32), 41, grid=(3, 1, 1))
    assert str(caught.value) == (
        "load from b: index 41 is out of range, it has 41 elements (kernel add, program (2,0,0))\n"
        "  hint: mask those lanes off: mk.load(b, offsets, offsets < 41)"
    )
    assert isinstance(caught.value, IndexError)


def test_out_of_bounds_store_leaves_earlier_programs_written():
    c = np.zeros(41, np.float32)
    with pytest.raises(
        errors.OutOfBounds,
        match=r"store to c: index 41 .* 41 elements \(kernel add, program \(2,0,0\)\)",
    ):
        run(
            ADD.replace("store %c.p, %z, %mask", "store %c.p, %z"),
            *np.ones((2, 41), np.float32),
            c,
            41,
            grid=(3, 1, 1),
        )
    np.testing.assert_array_equal(c, [2] * 32 + [0] * 9)


def test_negative_index_does_not_count_from_the_end():
    text = "kernel k(%x: ptr<f32>) spmd {\n%m = const -1 : i32\n%p = addptr %x, %m : ptr<f32>\n%v = load %p : f32\nyield\n}"
    with pytest.raises(
        errors.OutOfBounds, match="index -1 is out of range, it has 4 elements"
    ) as caught:
        run(text, np.zeros(4, np.float32))
    assert "negative" in caught.value.hint


def test_an_error_names_the_kernel_line():
    def kernel_source():
        return 1

    locs = LocTable([Loc(((kernel_source.__code__, 0),))])
    module = parse_module(
        ADD.replace("load %b.p, %mask : f32[16]", "load %b.p : f32[16] @ 0"), locs
    )
    with pytest.raises(errors.OutOfBounds) as caught:
        execute(module, [*np.zeros((3, 41), np.float32), 41], (3, 1, 1))
    assert f"at test_interp.py:{kernel_source.__code__.co_firstlineno}" in str(caught.value)


def test_an_error_inside_a_loop_keeps_the_inner_line():
    def inner():
        return 1

    text = """kernel k(%x: ptr<f32>) spmd {
      %z = const 0 : i32
      %n = const 9 : i32
      %s = const 1 : i32
      for %z, %n, %s (%i: i32) {
        %p = addptr %x, %i : ptr<f32>
        %v = load %p : f32 @ 0
        yield
      }
      yield
    }"""
    module = parse_module(text, LocTable([Loc(((inner.__code__, 0),))]))
    with pytest.raises(errors.OutOfBounds, match="index 4") as caught:
        execute(module, [np.zeros(4, np.float32)], (1, 1, 1))
    assert f"test_interp.py:{inner.__code__.co_firstlineno}" in str(caught.value)


def test_read_only_memory_is_not_written():
    c = np.zeros(16, np.float32)
    c.flags.writeable = False
    with pytest.raises(errors.LostWrite, match="writes c, which is read-only"):
        run(ADD, *np.ones((2, 16), np.float32), c, 16)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((np.zeros(4, np.float32), 1, 2), "takes 2 arguments, got 3"),
        (
            (np.zeros(4), 1),
            r"x is a flat, contiguous buffer of f32 \(float32 in memory\), got float64",
        ),
        ((np.zeros((2, 2), np.float32), 1), r"got float32 of shape \(2, 2\)"),
        ((np.zeros(8, np.float32)[::2], 1), "contiguous"),
        (([1.0], 1), "x is a buffer of f32, got list"),
        ((np.zeros(4, np.float32), 1.5), "n is 1.5, which is no i32"),
        ((np.zeros(4, np.float32), float("nan")), "n is nan, which is no i32"),
        ((np.zeros(4, np.float32), 2**31), "n is 2147483648, which is no i32"),
        ((np.zeros(4, np.float32), "3"), "n is a number of type i32, got str"),
    ],
)
def test_wrong_arguments_are_refused(args, text):
    with pytest.raises(errors.ArgumentError, match=text):
        run("kernel k(%x: ptr<f32>, %n: i32) spmd {\nyield\n}", *args)


@pytest.mark.parametrize("grid", [(1, 1), (1, -1, 1)])
def test_wrong_grid_is_refused(grid):
    with pytest.raises(errors.GridError, match="three numbers"):
        run("kernel k() spmd {\nyield\n}", grid=grid)


def test_ill_typed_ir_is_refused():
    with pytest.raises(errors.InvalidIR, match="results are"):
        run("kernel k() spmd {\n%x = const 1 : i32\n%y = add %x, %x : i64\nyield\n}")


def test_no_numpy_warning_leaks():
    lines = """%v = load %x.p : f32[4]
    %z = const 0.0 : f32[4]
    %q = div %v, %z : f32[4]
    %big = mul %v, %v : f32[4]
    %s = sqrt %v : f32[4]
    %l = log %v : f32[4]
    %n = cast %q : i8[4]
    %row = reshape %v {shape=(1, 4)} : f32[1,4]
    %col = reshape %v {shape=(4, 1)} : f32[4,1]
    %acc = const 0.0 : f32[1,1]
    %d = dot %row, %col, %acc : f32[1,1]
    store %x.p, %q"""
    x = np.array([-1e38, 1e38, 0, 3], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(block_kernel(4, "%x: ptr<f32>", lines), x)
    np.testing.assert_array_equal(x, [-np.inf, np.inf, np.nan, np.inf])


def test_evaluate_is_silent_when_a_result_overflows():
    a, out = Type(dtypes.f32, (1, 1)), Type(dtypes.f32, (1, 1))
    big = np.full((1, 1), 3e38, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (got,) = evaluate(TABLE["dot"], Call((a, a, out), (out,), {}), (big, big, big))
    assert got.dtype == np.float32
    assert np.isinf(got[0, 0])


def test_programs_run_in_order_with_ids_on_three_axes():
    lines: list[str] = []
    text = """kernel ids() spmd {
      %x = program_id {axis=0} : i32
      %y = program_id {axis=1} : i32
      %z = program_id {axis=2} : i32
      %nx = num_programs {axis=0} : i32
      %ny = num_programs {axis=1} : i32
      %nz = num_programs {axis=2} : i32
      device_print %x, %y, %z, %nx, %ny, %nz {prefix="ids"}
      yield
    }"""
    run(text, grid=(2, 3, 2), out=lines.append)
    want = [
        f"[ids pid=({x},{y},{z})] ids {x} {y} {z} 2 3 2"
        for z, y, x in itertools.product(range(2), range(3), range(2))
    ]
    assert lines == want


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1), (1, 1, 0)])
def test_zero_sized_grid_runs_nothing(grid):
    text = 'kernel k() spmd {\n%f = const false : bool\ndevice_assert %f {message="ran"}\nyield\n}'
    run(text, grid=grid)
    with pytest.raises(errors.DeviceAssertion):
        run(text)


def test_device_print_goes_to_stdout(capsys):
    run(
        block_kernel(3, "%x: ptr<f32>", '%v = load %x.p : f32[3]\ndevice_print %v {prefix="v ="}'),
        np.array([1, 2.5, -3], np.float32),
    )
    assert capsys.readouterr().out == "[k pid=(0,0,0)] v = [ 1.   2.5 -3. ]\n"


def test_device_assert_fails_with_message_and_program():
    text = """kernel check(%n: i32) spmd {
      %p = program_id {axis=0} : i32
      %ok = lt %p, %n : bool
      device_assert %ok {message="p must stay below n"}
      yield
    }"""
    run(text, 3, grid=(3, 1, 1))
    with pytest.raises(errors.DeviceAssertion) as caught:
        run(text, 3, grid=(5, 1, 1))
    assert str(caught.value) == "p must stay below n (kernel check, program (3,0,0))"


def test_device_assert_ignores_masked_lanes():
    lines = """%two = const 2 : i32[4]
    %ok = lt %i, %two : bool[4]
    device_assert %ok, %ok {message=""}"""
    run(block_kernel(4, "%x: ptr<f32>", lines), np.zeros(1, np.float32))
    with pytest.raises(errors.DeviceAssertion, match="device_assert failed"):
        run(
            block_kernel(4, "%x: ptr<f32>", lines.replace("%ok, %ok", "%ok")),
            np.zeros(1, np.float32),
        )


def test_assume_is_checked():
    text = (
        "kernel k(%n: i32) spmd {\n%z = const 0 : i32\n%c = gt %n, %z : bool\nassume %c\nyield\n}"
    )
    run(text, 1)
    with pytest.raises(errors.DeviceAssertion, match="assume"):
        run(text, 0)


def test_one_module_runs_on_several_threads():
    module = parse_module(ADD)
    n = 16 * 50
    a = rng.standard_normal((4, n)).astype(np.float32)
    outs = np.zeros((4, n), np.float32)
    threads = [
        threading.Thread(target=execute, args=(module, [a[i], a[i], outs[i], n], (50, 1, 1)))
        for i in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(outs, a + a)


def test_a_module_that_is_gone_leaves_nothing_to_the_next_at_its_place():
    """Modules are known by their addresses, which memory gives out again."""
    out = np.zeros(1, np.int32)
    for number in range(60):
        execute(parse_module(f"kernel k(%x: ptr<i32>) spmd {{\n%n = const {number} : i32\nstore %x, %n\nyield\n}}"), [out], (1, 1, 1))
        assert out[0] == number


def test_a_failed_launch_does_not_spoil_the_next():
    module = parse_module(ADD)
    a, c = np.ones(16, np.float32), np.zeros(16, np.float32)
    with pytest.raises(errors.OutOfBounds):
        execute(module, [a[:3].copy(), a, c, 16], (1, 1, 1))
    execute(module, [a, a, c, 16], (1, 1, 1))
    assert np.all(c == 2)
