"""What a kernel's author reads when the kernel is wrong: the whole text, line numbers counted from the `def`."""

from __future__ import annotations

import math
import pickle
import traceback

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.kernel_runs import refusal, relative

F = np.arange(8, dtype=np.float32)
I = np.arange(8, dtype=np.int32)  # noqa: E741


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


def text_of(kind, fn, *args, **meta):
    return relative(refusal(kind, fn, *args, **meta), fn)


def place(line, source, marked):
    """`at`, the source line and its carets under `marked`."""
    return f"\n  at +{line}\n    {source}\n    {' ' * source.index(marked)}{'^' * len(marked)}"


# --- types and shapes -----------------------------------------------------------------------------------


def exp_of_int(x, y):
    i = mk.arange(0, 8)
    p = mk.exp(i + 3)
    mk.store(y, i, p)


def no_common_type(x, y):
    a = mk.cast(mk.load(x, 0), mk.i64)
    mk.store(y, 0, a + mk.to_u64(1))


def shapes(x, y):
    a = mk.arange(0, 8) + mk.arange(0, 4)
    mk.store(y, 0, a)


def mask_of_load(x, y):
    mk.load(x, mk.arange(0, 8), mask=mk.arange(0, 4) < 2)


def mask_of_store(x, y):
    mk.store(y, mk.arange(0, 8), 1.0, mk.arange(0, 4) < 2)


def mask_type(x, y):
    mk.load(x, mk.arange(0, 8), mask=mk.arange(0, 8))


def float_to_int_buffer(x, y):
    mk.store(x, 0, mk.load(y, 0) * 2)


def fraction_to_int_buffer(x, y):
    mk.store(x, 0, 1.5)


def pointer_arithmetic(x, y):
    mk.store(y, 0, y * 2)


def not_a_buffer(x, y):
    mk.store(3, 0, 2)


def none_operand(x, y):
    mk.store(y, 0, None)


def text_operand(x, y):
    mk.store(y, 0, mk.load(y, 0) + "1")


def too_big(x, y):
    mk.store(x, 0, mk.load(x, 0) + 2**40)


TYPE_TEXTS = [
    (exp_of_int, eas.TypeMismatch, "exp needs a float operand, got i32[8]", (2, "p = mk.exp(i + 3)", "mk.exp(i + 3)"), "mk.cast(i + 3, mk.f32)"),
    (no_common_type, eas.TypeMismatch, "i64 and u64 have no common type", (2, "mk.store(y, 0, a + mk.to_u64(1))", "a + mk.to_u64(1)"), "cast one of them: mk.cast(x, mk.i64) or mk.cast(x, mk.u64)"),
    (shapes, eas.ShapeMismatch, "add got blocks of shapes [8] and [4], which do not broadcast", (1, "a = mk.arange(0, 8) + mk.arange(0, 4)", "mk.arange(0, 8) + mk.arange(0, 4)"), "insert axes with x[:, None], or use mk.broadcast_to"),
    (mask_of_load, eas.ShapeMismatch, "load: the mask has shape [4], the offsets [8]", (1, "mk.load(x, mk.arange(0, 8), mask=mk.arange(0, 4) < 2)"), "build the mask from the same offsets"),
    (mask_of_store, eas.ShapeMismatch, "store: the mask has shape [4], the offsets [8]", (1, "mk.store(y, mk.arange(0, 8), 1.0, mk.arange(0, 4) < 2)"), "build the mask from the same offsets"),
    (mask_type, eas.TypeMismatch, "load: the mask must be bool, got i32[8]", (1, "mk.load(x, mk.arange(0, 8), mask=mk.arange(0, 8))"), "compare: mask=x != 0"),
    (float_to_int_buffer, eas.TypeMismatch, "the value of store is f32 and does not become i32 without a cast", (1, "mk.store(x, 0, mk.load(y, 0) * 2)"), "mk.cast(x, mk.i32) truncates toward zero, mk.round(x) first rounds"),
    (fraction_to_int_buffer, eas.TypeMismatch, "the value of store is 1.5, which i32 cannot hold", (1, "mk.store(x, 0, 1.5)"), "use a whole number, or a float dtype"),
    (pointer_arithmetic, eas.TypeMismatch, "mul needs values, got the pointer <y: ptr<f32>>", (1, "mk.store(y, 0, y * 2)", "y * 2"), "load from it first: mk.load(buffer, offsets)"),
    (not_a_buffer, eas.TypeMismatch, "store needs a buffer or pointer, got i32", (1, "mk.store(3, 0, 2)"), "pass the kernel argument itself, or buffer + offsets"),
    (none_operand, eas.TypeMismatch, "the value of store is None", (1, "mk.store(y, 0, None)"), "pass something for it, or ask `if x is not None` first"),
    (text_operand, eas.TypeMismatch, "an operand of add cannot be a str", (1, 'mk.store(y, 0, mk.load(y, 0) + "1")', 'mk.load(y, 0) + "1"'), "use numbers and traced values"),
    (too_big, eas.TypeMismatch, "1099511627776 does not fit i32", (1, "mk.store(x, 0, mk.load(x, 0) + 2**40)", "mk.load(x, 0) + 2**40"), "cast the i32 operand to i64, or use a number in [-2147483648, 2147483647]"),
]  # fmt: skip


# --- Python that has no meaning in a kernel ---------------------------------------------------------------


def as_bool(x, y):
    if mk.load(x, mk.arange(0, 8)) > 3:
        mk.store(y, 0, 1.0)


def as_while(x, y):
    v = mk.load(x, mk.arange(0, 8))
    while v > 3:
        v -= 1


def as_iterator(x, y):
    for v in mk.load(x, mk.arange(0, 8)):
        mk.store(y, 0, v)


def as_target(x, y):
    v = mk.load(x, mk.arange(0, 8))
    v[0] = 1


def as_function(x, y):
    mk.store(y, 0, x(0))


def as_text(x, y):
    mk.static_assert(True, f"{mk.load(y, 0):.3f}")


def as_container(x, y):
    mk.store(y, 0, 1 if 3 in mk.load(x, mk.arange(0, 8)) else 0)


def one_max(x, y):
    mk.store(y, 0, max(mk.load(x, mk.arange(0, 8))))


def runtime_comprehension(x, y):
    mk.store(y, 0, sum([i * 2 for i in range(mk.load(x, 0))]))


def runtime_filter(x, y):
    mk.store(y, 0, sum([i for i in range(4) if mk.load(x, i) > 0]))


def raises_at_run_time(x, y):
    if mk.load(x, 0) > 0:
        raise ValueError("no")


def numpy_function(x, y):
    mk.store(y, 0, np.exp(mk.load(y, 0)))


def numpy_reduction(x, y):
    mk.store(y, 0, np.sum(mk.load(y, mk.arange(0, 8)), axis=0))


def numpy_type(x, y):
    mk.store(y, 0, np.float32(mk.load(x, 0)))


def forgotten_value(x, y):
    mk.store(y, mk.arange(0, 8))


def math_function(x, y):
    mk.store(y, 0, math.floor(mk.load(y, 0)))


def or_of_blocks(x, y):
    mk.store(y, 0, mk.load(x, mk.arange(0, 8)) or 3)


def bad_dtype(x, y):
    mk.store(y, 0, mk.cast(1, "f33"))


def gives_back(x, y):
    mk.store(y, 0, 1)
    return mk.load(y, 0)


PYTHON_TEXTS = [
    (as_bool, eas.ShapeMismatch, "a condition must be a scalar, got the block bool[8]", (1, "if mk.load(x, mk.arange(0, 8)) > 3:", "mk.load(x, mk.arange(0, 8)) > 3"), "use mk.where(cond, a, b) per element, or mk.any(x) or mk.all(x)"),
    (as_while, eas.ShapeMismatch, "a condition must be a scalar, got the block bool[8]", (2, "while v > 3:", "v > 3"), "use mk.where(cond, a, b) per element, or mk.any(x) or mk.all(x)"),
    (as_iterator, eas.TypeMismatch, "<i32[8]> cannot be iterated over", (1, "for v in mk.load(x, mk.arange(0, 8)):", "mk.load(x, mk.arange(0, 8))"), "write a block expression, or loop with range(n)"),
    (as_target, eas.TypeMismatch, "<v: i32[8]> is a value: its elements cannot be assigned", (2, "v[0] = 1", "v[0]"), "use mk.where(cond, new, old), or mk.store to write memory"),
    (as_function, eas.TypeMismatch, "<x: ptr<i32>> is a value and cannot be called", (1, "mk.store(y, 0, x(0))", "x"), "index blocks with x[:, None], read memory with mk.load"),
    (as_text, eas.TypeMismatch, "<f32> has no digits to format while the kernel is traced", (1, 'mk.static_assert(True, f"{mk.load(y, 0):.3f}")', 'f"{mk.load(y, 0):.3f}"'), 'mk.device_print("x", x) prints it when the kernel runs'),
    (as_container, eas.TypeMismatch, "`in` needs a Python container", (1, "mk.store(y, 0, 1 if 3 in mk.load(x, mk.arange(0, 8)) else 0)", "3 in mk.load(x, mk.arange(0, 8))"), "compare elements with == and mk.any"),
    (one_max, eas.TypeMismatch, "max() of one traced value <i32[8]>", (1, "mk.store(y, 0, max(mk.load(x, mk.arange(0, 8))))", "max(mk.load(x, mk.arange(0, 8)))"), "mk.max(x) reduces a block"),
    (runtime_comprehension, eas.UnsupportedPython, "a comprehension cannot run over a runtime range", (1, "mk.store(y, 0, sum([i * 2 for i in range(mk.load(x, 0))]))", "range(mk.load(x, 0))"), "use mk.arange for a block, or a for statement"),
    (runtime_filter, eas.UnsupportedPython, "a comprehension cannot filter by a runtime value", (1, "mk.store(y, 0, sum([i for i in range(4) if mk.load(x, i) > 0]))", "mk.load(x, i) > 0"), "use mk.where, or a for statement with if"),
    (raises_at_run_time, eas.UnsupportedPython, "raise under a runtime condition", (2, 'raise ValueError("no")'), "use mk.device_assert(cond, message)"),
    (numpy_function, eas.TypeMismatch, "numpy.exp takes host numbers, got the runtime value <f32>", (1, "mk.store(y, 0, np.exp(mk.load(y, 0)))", "np.exp(mk.load(y, 0))"), "mk.exp(mk.load(y, 0))"),
    (forgotten_value, eas.ShapeMismatch, "store got i32[8] for one address: its offsets or its value are missing", (1, "mk.store(y, mk.arange(0, 8))", "mk.store(y, mk.arange(0, 8))"), "mk.store(buffer, offsets, value), or mk.store(buffer + offsets, value)"),
    (numpy_reduction, eas.TypeMismatch, "numpy.sum takes host numbers, got the runtime value <f32[8]>", (1, "mk.store(y, 0, np.sum(mk.load(y, mk.arange(0, 8)), axis=0))", "np.sum(mk.load(y, mk.arange(0, 8)), axis=0)"), "mk.sum(mk.load(y, mk.arange(0, 8)), axis=0)"),
    (numpy_type, eas.TypeMismatch, "numpy.float32 takes host numbers, got the runtime value <i32>", (1, "mk.store(y, 0, np.float32(mk.load(x, 0)))", "np.float32(mk.load(x, 0))"), "mk.cast(mk.load(x, 0), mk.f32)"),
    (math_function, eas.TypeMismatch, "math.floor takes host numbers, got the runtime value <f32>", (1, "mk.store(y, 0, math.floor(mk.load(y, 0)))", "math.floor(mk.load(y, 0))"), "mk.floor(mk.load(y, 0))"),
    (or_of_blocks, eas.ShapeMismatch, "`or` of the block i32[8]", (1, "mk.store(y, 0, mk.load(x, mk.arange(0, 8)) or 3)", "mk.load(x, mk.arange(0, 8)) or 3"), "use mk.where(cond, a, b), or & and | on blocks of bools"),
    (bad_dtype, eas.TypeMismatch, "'f33' is not a dtype", (1, 'mk.store(y, 0, mk.cast(1, "f33"))', 'mk.cast(1, "f33")'), "use mk.f32, mk.i32, ..."),
    (gives_back, eas.CompileError, "kernel gives_back returns a value; kernels return nothing", (2, "return mk.load(y, 0)"), "write results with mk.store"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "kind", "message", "at", "hint"), TYPE_TEXTS + PYTHON_TEXTS, ids=lambda v: getattr(v, "__name__", ""))
def test_text(kernel, kind, message, at, hint):
    line, source, *marked = at
    assert text_of(kind, kernel, I.copy(), F.copy()) == f"{message}{place(line, source, *(marked or [source]))}\n  hint: {hint}"


def test_functions_of_torch_get_the_hint_that_those_of_numpy_get():
    torch = pytest.importorskip("torch")

    def kernel(x, y):
        mk.store(y, 0, torch.relu(mk.load(y, 0)))

    text = text_of(eas.TypeMismatch, kernel, I.copy(), F.copy())
    assert text.startswith("torch.relu takes host numbers, got the runtime value <f32>")
    assert text.endswith("hint: mk.relu(mk.load(y, 0))")


# --- modes ------------------------------------------------------------------------------------------------


def test_mixing_arange_and_tid_names_both_lines():
    def kernel(y):
        a = mk.arange(0, 8)
        mk.store(y, a, 1.0)
        mk.store(y, mk.tid(0, 8), 1.0)

    def other(y):
        b = mk.tid(0, 8)
        mk.store(y, mk.arange(0, 8), b)

    hint = "\n  hint: use mk.arange for block (spmd) kernels, mk.tid for thread kernels, never both"
    assert text_of(eas.ModeMismatch, kernel, F) == (
        "mk.tid cannot be used in a kernel that uses mk.arange at +1: one is for thread kernels, the other for spmd kernels"
        + place(3, "mk.store(y, mk.tid(0, 8), 1.0)", "mk.tid(0, 8)") + hint
    )  # fmt: skip
    assert text_of(eas.ModeMismatch, other, F) == (
        "mk.arange cannot be used in a kernel that uses mk.tid at +1: one is for spmd kernels, the other for thread kernels"
        + place(2, "mk.store(y, mk.arange(0, 8), b)", "mk.arange(0, 8)") + hint
    )  # fmt: skip


@pytest.mark.parametrize("word", ["barrier()", "alloc_tg(8)", "simd_sum(i)", "lane_id()", "local_id(0)", "mma_zero()"])
def test_thread_only_functions_in_an_spmd_kernel(word):
    from tests.unit.plain_hooks import load_source

    kernel = load_source(f"def kernel(y):\n    i = mk.arange(0, 8)\n    mk.{word}\n", mk=mk)["kernel"]
    name = word.split("(")[0]
    assert refusal(eas.ModeMismatch, kernel, F).startswith(f"mk.{name} cannot be used in a kernel that uses mk.arange at ")


def test_thread_kernel_that_never_says_its_threads():
    def kernel(y):
        mk.store(y, mk.lane_id(), 1.0)

    assert text_of(eas.ModeMismatch, kernel, F) == (
        "kernel kernel uses mk.lane_id but never says how many threads a threadgroup has"
        + place(1, "mk.store(y, mk.lane_id(), 1.0)", "mk.lane_id()") + "\n  hint: call mk.tid(0, BLOCK)"
    )  # fmt: skip


def test_mk_outside_of_a_kernel():
    for call in (lambda: mk.arange(0, 8), lambda: mk.exp(1.0), lambda: mk.program_id(0), lambda: mk.zeros([4])):
        with pytest.raises(eas.OutsideKernel) as info:
            call()
        text = str(info.value)
        assert " can only be used inside a kernel\n  at test_errors.py:" in text
        assert text.endswith("hint: decorate the function with @eas.kernel and call it")
        assert [frame.filename.rpartition("/")[2] for frame in traceback.extract_tb(info.value.__traceback__)] == ["test_errors.py"] * 2
    assert pickle.loads(pickle.dumps(mk.exp)) is mk.exp


# --- assertions, chains, run time -----------------------------------------------------------------------------


def test_static_assert_shows_its_message_and_line():
    def kernel(y, N: mk.constexpr):
        mk.static_assert(N % 4 == 0, "N must be a multiple of 4")
        assert N < 100, f"{N} is too large"

    assert text_of(eas.StaticAssertion, kernel, F, 3) == "N must be a multiple of 4" + place(1, *['mk.static_assert(N % 4 == 0, "N must be a multiple of 4")'] * 2)
    assert text_of(eas.StaticAssertion, kernel, F, 400).startswith("400 is too large\n  at +2\n")


def test_helper_chain_shows_where_each_was_called():
    def inner(v):
        return mk.exp(v)

    def middle(v):
        return inner(v) + 1

    def kernel(y, n):
        for i in range(n):
            mk.store(y, i, middle(n))

    assert relative(refusal(eas.TypeMismatch, kernel, F, 3), inner) == (
        "exp needs a float operand, got i32" + place(1, "return mk.exp(v)", "mk.exp(v)") + "\n  called at +4\n  called at +8\n  hint: mk.cast(v, mk.f32)"
    )


def test_run_time_errors_show_the_kernel_line():
    def out_of_bounds(y, n):
        i = mk.arange(0, 8)
        mk.store(y, i + n, 1.0)

    def asserts(y, n):
        mk.device_assert(n < 3, "n is too large")

    assert text_of(eas.OutOfBounds, out_of_bounds, F.copy(), 3, _grid=1) == (
        "store to y: index 8 is out of range, it has 8 elements (kernel out_of_bounds, program (0,0,0))"
        + place(2, *["mk.store(y, i + n, 1.0)"] * 2) + "\n  hint: mask those lanes off: mk.store(y, offsets, value, offsets < 8)"
    )  # fmt: skip
    assert text_of(eas.DeviceAssertion, asserts, F, 3, _grid=1).startswith("n is too large (kernel asserts, program (0,0,0))\n  at +1\n")


def test_unknown_names_get_the_closest_one():
    def misspelt(y):
        mk.store(y, 0, mk.sigmiod(1.0))

    def attribute(y):
        mk.store(y, 0, mk.load(y, 0).shpae)

    def foreign(y):
        mk.store(mk.shared(4), 0, mk.load(y, 0))

    def block_pointer(y):
        mk.make_block_ptr(y, (8,), (1,), (0,), (8,), (0,))

    for kernel, text, note in (
        (block_pointer, "module 'eas.mk' has no attribute 'make_block_ptr'", "  hint: address memory with offsets: mk.load(x + i[:, None] * stride + j[None, :], mask=...)"),
        (foreign, "module 'eas.mk' has no attribute 'shared'", "  hint: did you mean mk.alloc_tg?"),
        (misspelt, "module 'eas.mk' has no attribute 'sigmiod'", "  hint: did you mean mk.sigmoid?"),
        (attribute, "'Block' object has no attribute 'shpae'", "  hint: did you mean x.shape?"),
    ):
        for launched in (eas.kernel(kernel), eas.kernel(kernel)[1]):
            with pytest.raises(AttributeError) as caught_error:
                launched(F)
            assert str(caught_error.value) == text
            assert caught_error.value.__notes__ == [note]
            shown = "".join(traceback.format_exception(caught_error.value))
            assert shown.count("hint:") == 1
            assert "Did you mean" not in shown  # Python's own suggestion would be a second one
