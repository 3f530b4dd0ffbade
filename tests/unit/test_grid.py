"""Grid inference and threadgroup checks: every rule, and the text of every refusal."""

import functools

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.errors import GridError
from eas.metal_sim.grids import shape_of
from eas.runtime import get_runtime
from eas.runtime.grid import GridInfo, GridOptions, check_tptg, infer_grid


def spmd(*axes, blocks=(256,), num_programs=()):
    return GridInfo("blur", "spmd", frozenset(axes), tuple(blocks), frozenset(num_programs))


def thread(*axes, blocks=(128,)):
    return GridInfo("blur", "thread", frozenset(axes), tuple(blocks))


def grid_of(info=None, scalars=None, meta=None, args=None, **options):
    return infer_grid(info or spmd(0), scalars or {}, meta or {}, GridOptions(**options), args)


def refusal(call, *args, **kwargs):
    with pytest.raises(GridError) as caught:
        call(*args, **kwargs)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


# --- an explicit grid ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (7, (7, 1, 1)),
        ((7,), (7, 1, 1)),
        ([2, 3], (2, 3, 1)),
        ((2, 3, 4), (2, 3, 4)),
        (np.int32(5), (5, 1, 1)),
        ((np.int64(2), np.uint8(3)), (2, 3, 1)),
        (0, (0, 1, 1)),
        (2**31 - 1, (2**31 - 1, 1, 1)),
    ],
)
def test_explicit_grid_becomes_three_ints(given, want):
    got = grid_of(grid=given)
    assert got == want
    assert all(type(n) is int for n in got)


def test_explicit_grid_wins_over_everything_else():
    info = spmd(0, 1, blocks=(16, 32))
    assert grid_of(info, {"N": 10}, grid=3, shape=(8, 8), nthreads=4) == (3, 1, 1)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (-1, "_grid of kernel blur is negative: -1"),
        ((4, -2), "_grid of kernel blur is negative: -2"),
        (2**31, "_grid of kernel blur is 2147483648, more than the largest possible 2147483647"),
        (4.0, "_grid of kernel blur needs integers, got 4.0 (float)"),
        (True, "_grid of kernel blur needs integers, got True (bool)"),
        ("4", "_grid of kernel blur needs integers, got '4' (str)"),
        ((), "_grid of kernel blur has 0 extents, it takes 1 to 3: ()"),
        ((1, 2, 3, 4), "_grid of kernel blur has 4 extents, it takes 1 to 3"),
        (np.float32(4), "(float32)"),
        (np.array([1, 2]), "needs integers"),
    ],
)
def test_bad_explicit_grid_is_refused(given, text):
    message = refusal(grid_of, grid=given)
    assert text in message
    assert "hint: " in message


def test_callable_grid_sees_meta_and_args():
    seen = []

    def grid(meta, args):
        seen.append((meta, args))
        return (args["rows"], meta["BLOCK"])

    assert grid_of(spmd(0), {"rows": 3}, {"BLOCK": 8}, grid=grid) == (3, 8, 1)
    assert seen == [({"BLOCK": 8}, {"rows": 3})]


def test_callable_grid_prefers_all_arguments_to_scalars():
    x = np.zeros((5, 2))
    got = grid_of(scalars={"n": 1}, args={"x": x, "n": 1}, grid=lambda meta, args: args["x"].shape)
    assert got == (5, 2, 1)


def test_triton_grid_sees_arguments_and_meta_in_one_mapping():
    got = grid_of(
        scalars={"n": 1000},
        meta={"BLOCK": 256},
        grid=lambda meta: (-(-meta["n"] // meta["BLOCK"]),),
    )
    assert got == (4, 1, 1)


class _Sizes:
    def one(self, meta):
        return meta["BLOCK"]

    def two(self, meta, args):
        return meta["BLOCK"] + args["n"]

    def __call__(self, meta):
        return 9


def _three(scale, meta, args):
    return scale * args["n"]


def _logged(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)

    return wrapper


@pytest.mark.parametrize(
    ("grid", "want"),
    [
        (_Sizes().one, 4),
        (_Sizes().two, 7),
        (_Sizes(), 9),
        (functools.partial(_three, 5), 15),
        (lambda *both: len(both), 2),
        (lambda meta, /, *, scale=2: scale, 2),
        (_logged(lambda meta: meta["n"]), 3),
        (_logged(lambda meta, args: args["n"]), 3),
    ],
)
def test_callable_grid_may_be_any_callable(grid, want):
    assert grid_of(scalars={"n": 3}, meta={"BLOCK": 4}, grid=grid) == (want, 1, 1)


def test_callable_grid_without_parameters_is_refused():
    message = refusal(grid_of, grid=lambda: 4)
    assert "the _grid callable of kernel blur takes no positional parameter" in message
    assert "hint: write it as `lambda meta, args: ...`" in message


def test_callable_grid_returning_a_float_is_refused():
    message = refusal(grid_of, meta={"n": 10}, grid=lambda meta: meta["n"] / 4)
    assert "the result of the _grid callable of kernel blur needs integers, got 2.5" in message
    assert "hint: -(-n // BLOCK) rounds up" in message


def test_callable_grid_keeps_its_own_type_error():
    def grid(meta):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        grid_of(grid=grid)


# --- an inferred grid ---------------------------------------------------------------------------


def test_kernel_without_program_id_runs_once():
    assert grid_of(spmd(blocks=(16, 32))) == (1, 1, 1)
    assert grid_of(spmd(blocks=()), {"N": 1000}) == (1, 1, 1)


@pytest.mark.parametrize(("n", "want"), [(0, 0), (1, 1), (256, 1), (257, 2), (1031, 5)])
def test_axis_0_divides_n_by_block_rounding_up(n, want):
    assert grid_of(spmd(0), {"N": n}) == (want, 1, 1)
    assert grid_of(spmd(0), {"N": np.int32(n)}) == (want, 1, 1)
    assert grid_of(spmd(0), meta={"N": n}) == (want, 1, 1)
    assert grid_of(spmd(0), nthreads=n) == (want, 1, 1)
    assert grid_of(spmd(0), shape=(n,)) == (want, 1, 1)
    assert grid_of(spmd(0), shape=n) == (want, 1, 1)


def test_nthreads_wins_over_shape_and_shape_over_n():
    assert grid_of(spmd(0), {"N": 1}, shape=(512,), nthreads=1024) == (4, 1, 1)
    assert grid_of(spmd(0), {"N": 1}, shape=(512,)) == (2, 1, 1)


def test_thread_mode_divides_by_tid_length():
    assert grid_of(thread(0), {"N": 129}) == (2, 1, 1)


def test_num_programs_counts_as_use_of_an_axis():
    assert grid_of(spmd(blocks=(8,), num_programs=(0,)), {"N": 17}) == (3, 1, 1)
    assert grid_of(spmd(0, blocks=(8,), num_programs=(1,)), {"W": 17, "H": 5}) == (3, 5, 1)


def test_axis_1_takes_h_and_w():
    assert grid_of(spmd(0, 1), {"W": 257, "H": 5, "D": 9}) == (2, 5, 1)
    assert grid_of(spmd(0, 1), shape=(5, 257)) == (2, 5, 1)


def test_axis_2_takes_d_too():
    assert grid_of(spmd(0, 1, 2), {"W": 257, "H": 5, "D": 3}) == (2, 5, 3)
    assert grid_of(spmd(0, 1, 2), shape=(3, 5, 257)) == (2, 5, 3)


def test_unused_axis_gets_one_program():
    assert grid_of(spmd(0, 2), {"W": 257, "D": 3}) == (2, 1, 3)
    assert grid_of(spmd(0, 1), shape=(3, 5, 257)) == (2, 5, 1)
    assert grid_of(spmd(1, blocks=(8, 16)), {"H": 5}) == (1, 5, 1)
    assert grid_of(spmd(1, blocks=(8, 16)), shape=(5, 257)) == (1, 5, 1)


@pytest.mark.parametrize("shape", [(0, 5, 257), (3, 0, 257), (3, 5, 0)])
def test_empty_shape_gives_empty_grid(shape):
    assert 0 in grid_of(spmd(0, 1, 2), shape=shape)
    assert 0 in grid_of(spmd(0, 1), shape=shape)


def test_missing_n_says_what_to_pass():
    message = refusal(grid_of, spmd(0), {"n": 5})
    assert "cannot infer the grid of kernel blur: N not given" in message
    assert (
        "hint: pass _nthreads=..., _shape=(N,), or an integer argument named N, or the number of programs as _grid=..."
        in message
    )


@pytest.mark.parametrize(
    ("axes", "scalars", "missing", "hint"),
    [
        ((0, 1), {}, "W, H", "_shape=(H, W), or integer arguments named W, H"),
        ((0, 1), {"W": 0}, "H", "_shape=(H, W), or an integer argument named H"),
        ((0, 1, 2), {"W": 4, "H": 4}, "D", "_shape=(D, H, W), or an integer argument named D"),
        ((0, 2), {"D": 4}, "W", "_shape=(D, H, W), or an integer argument named W"),
    ],
)
def test_missing_extent_is_named(axes, scalars, missing, hint):
    message = refusal(grid_of, spmd(*axes), scalars)
    assert f"kernel blur: {missing} not given" in message
    assert hint in message


def test_float_n_is_refused():
    assert "argument N of kernel blur needs integers, got 3.5 (float)" in refusal(
        grid_of, spmd(0), {"N": 3.5}
    )


def test_negative_n_is_refused():
    assert "argument N of kernel blur is negative: -3" in refusal(grid_of, spmd(0), {"N": -3})


def test_several_blocks_need_an_explicit_grid():
    message = refusal(grid_of, spmd(0, blocks=(64, 16)), {"N": 100})
    assert "kernel blur: it has mk.arange lengths 16 and 64, so BLOCK is not known" in message
    assert "hint: pass the number of programs as _grid=..." in message


def test_no_block_needs_an_explicit_grid():
    assert "it has no mk.arange, so" in refusal(grid_of, spmd(0, blocks=()), {"N": 100})
    assert "it has no mk.tid, so" in refusal(grid_of, thread(0, 1, blocks=()), {"W": 1, "H": 1})
    assert "mk.arange lengths 0, so" in refusal(grid_of, spmd(0, blocks=(0,)), {"N": 100})


@pytest.mark.parametrize(
    ("axes", "shape", "text"),
    [
        ((0,), (2, 3), "_shape=(2, 3) has 2 extents, but kernel blur uses mk.program_id(0) only"),
        ((0, 1), (3,), "_shape=(3,) is too short: kernel blur uses mk.program_id(1)"),
        ((0, 1, 2), (2, 3), "_shape=(2, 3) is too short: kernel blur uses mk.program_id(2)"),
        ((0, 1), (1, 2, 3, 4), "_shape=(1, 2, 3, 4) has 4 extents; kernel blur can use 3 at most"),
        ((0, 1), (2, 3.0), "_shape of kernel blur needs integers, got 3.0"),
    ],
)
def test_shape_that_does_not_fit_the_axes_is_refused(axes, shape, text):
    assert text in refusal(grid_of, spmd(*axes), shape=shape)


def test_nthreads_with_two_axes_is_refused():
    message = refusal(grid_of, spmd(0, 1), nthreads=100)
    assert "_nthreads sizes axis 0 only, but kernel blur uses axes [0, 1]" in message


def test_inferred_grid_past_the_limit_is_refused():
    assert grid_of(spmd(0, blocks=(2,)), {"N": 2**32 - 2}) == (2**31 - 1, 1, 1)
    message = refusal(grid_of, spmd(0, blocks=(1,)), {"N": 2**31})
    assert "axis 0 of kernel blur is 2147483648, more than the largest possible" in message
    assert "axis 1 of kernel blur" in refusal(grid_of, spmd(0, 1), {"W": 1, "H": 2**31})


# --- threads per threadgroup --------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, 1, (1,), [1, 1], (1, 1, 1), np.int64(1)])
def test_spmd_has_one_thread(given):
    assert check_tptg(spmd(0), given) == (1, 1, 1)


@pytest.mark.parametrize("given", [None, 128, (128,), (128, 1, 1)])
def test_thread_mode_has_block_threads(given):
    assert check_tptg(thread(0), given) == (128, 1, 1)


def test_contradicting_tptg_names_the_right_one():
    message = refusal(check_tptg, spmd(0), 256)
    assert (
        "_tptg=(256, 1, 1) contradicts kernel blur, which runs in spmd mode with (1, 1, 1)"
        in message
    )
    message = refusal(check_tptg, thread(0), (16, 8))
    assert "hint: leave _tptg out, or pass _tptg=(128, 1, 1)" in message


def test_too_many_threads_are_refused():
    assert check_tptg(thread(0, blocks=(1024,))) == (1024, 1, 1)
    message = refusal(check_tptg, thread(0, blocks=(2048,)))
    assert "kernel blur asks for 2048 threads per threadgroup; 1 to 1024 are possible" in message
    assert "0 threads per threadgroup" in refusal(check_tptg, thread(0, blocks=(0,)))


def test_thread_mode_without_tid_takes_the_given_threads():
    assert check_tptg(thread(0, blocks=()), (8, 8)) == (8, 8, 1)
    message = refusal(check_tptg, thread(0, blocks=()))
    assert "runs in thread mode but never calls mk.tid" in message
    assert "2048 threads" in refusal(check_tptg, thread(0, blocks=()), (64, 32))


def test_two_tid_lengths_are_refused():
    message = refusal(check_tptg, thread(0, blocks=(64, 32)), 64)
    assert "kernel blur has mk.tid lengths 32 and 64, but a threadgroup has one size" in message


# --- more programs than numbers -----------------------------------------------------------------

LARGEST = 2**31 - 1


@eas.kernel
def touch(out):
    """Which program it is makes no difference: a launch of too many must not run at all."""
    mk.store(out, 1.0)


@pytest.mark.parametrize("grid", [(LARGEST, LARGEST, 3), (LARGEST, LARGEST, LARGEST), (2**21, 2**21, 2**21)])
@pytest.mark.parametrize("where", ["cpu", "interp", "sim"])
@pytest.mark.parametrize("form", ["option", "triton", "callable", "asynchronous"])
def test_grid_of_more_programs_than_numbers_is_refused(grid, where, form, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", where)
    out = np.zeros(1, np.float32)
    launch = {
        "option": lambda: touch(out, _grid=grid), "triton": lambda: touch[grid](out),
        "callable": lambda: touch(out, _grid=lambda meta: grid), "asynchronous": lambda: touch(out, _grid=grid, _sync=False),
    }[form]  # fmt: skip
    message = refusal(launch)
    x, y, z = grid
    assert f"the grid {grid} of kernel touch has {x * y * z} programs, more than the largest possible 9223372036854775807" in message
    assert "hint: use a larger BLOCK, or several launches" in message
    assert out[0] == 0


def test_grid_of_too_many_programs_is_refused_by_a_native_launcher_too(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    out = np.zeros(1, np.float32)
    for _ in range(6):
        touch(out, _grid=(2, 1, 1))
    assert touch._table
    out[0] = 0
    assert "programs, more than" in refusal(lambda: touch(out, _grid=(LARGEST, LARGEST, 3)))
    assert out[0] == 0


def test_grid_inferred_from_extents_is_refused_when_it_is_too_large():
    info = spmd(0, 1, 2, blocks=(1,))
    assert grid_of(info, {"W": LARGEST, "H": LARGEST, "D": 2}) == (LARGEST, LARGEST, 2)
    assert "has 13835058042397261827 programs" in refusal(grid_of, info, {"W": LARGEST, "H": LARGEST, "D": 3})
    assert "programs, more than" in refusal(grid_of, info, shape=(2**21, 2**21, 2**21))
    assert grid_of(info, {"W": LARGEST, "H": LARGEST, "D": 0}) == (LARGEST, LARGEST, 0)


def test_torch_operator_refuses_a_grid_that_is_too_large():
    torch = pytest.importorskip("torch")
    out = torch.zeros(1)
    assert "programs, more than" in refusal(lambda: touch(out, _grid=(LARGEST, LARGEST, LARGEST)))
    assert out[0] == 0


@pytest.mark.parametrize("runtime", ["cpu", "interp", "sim"])
def test_runtimes_refuse_a_grid_that_is_too_large(runtime):
    out = np.zeros(1, np.float32)
    variant = touch.compile(out).variant()
    assert "programs, more than" in refusal(lambda: get_runtime(runtime).run(variant, [out], (LARGEST, LARGEST, LARGEST)))
    assert out[0] == 0


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"grid": (2**16, 2**16), "threads": 1}, "has 4294967296 threadgroups, more than the largest possible 2147483647"),
        ({"grid": 2**27, "threads": 32}, "has 4294967296 threads along one axis, more than the largest possible 4294967295"),
        ({"grid_threads": (2**31, 2), "threads": 1}, "has 4294967296 threadgroups"),
    ],
)
def test_software_metal_refuses_more_threads_than_it_can_number(sizes, text):
    with pytest.raises(GridError) as caught:
        shape_of("blur", sizes.get("grid"), sizes.get("grid_threads"), sizes["threads"], 1024)
    assert text in str(caught.value)
