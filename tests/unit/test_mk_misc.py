"""Checks, messages, hints, loops and target text of mk."""

from __future__ import annotations

import numpy as np
import pytest

from eas import mk
from eas.base.errors import DeviceAssertion, StaticAssertion, TypeMismatch
from eas.base.types import Type
from eas.frontend.loops import RuntimeRange
from eas.runtime.interp import execute
from tests.unit.mk_kernels import lines_of, module_of, ptr, refusal, run


def test_static_assert_shows_its_line():
    def kernel(N):
        mk.static_assert(N == 4)
        mk.static_assert(N > 8, "N is too small")

    text = refusal(StaticAssertion, kernel, N=4)
    assert text.startswith("N is too small\n")
    assert 'mk.static_assert(N > 8, "N is too small")' in text

    def runtime():
        mk.static_assert(mk.program_id(0) == 0)

    assert "mk.device_assert(cond, msg)" in refusal(TypeMismatch, runtime)


def test_static_print_prints_once(capsys):
    def kernel(y, n, N):
        total: float = 0
        for _ in range(n):
            mk.static_print("block of", N)
            total = total + 1.5
        mk.store(y, 0, total)

    lines_of(kernel, y=ptr(mk.f32), n=Type(mk.i32), N=4)
    assert capsys.readouterr().out == "block of 4\n"


def test_device_print_and_assert():
    def kernel(x):
        i = mk.arange(4)
        v = mk.load(x, i)
        mk.device_print("v", v, mk.program_id(0))
        mk.device_assert(v < 3, "too large", mask=i < 3)
        mk.device_assert(True)
        mk.device_assert(v < 3, "far too large")

    seen: list[str] = []
    module = module_of(kernel, x=ptr(mk.i32))
    execute(module, [np.array([0, 1, 2, 2], np.int32)], (1, 1, 1), seen.append)
    assert "[0 1 2 2] 0" in seen[0]
    with pytest.raises(DeviceAssertion, match="far too large"):
        execute(module, [np.array([0, 1, 2, 3], np.int32)], (1, 1, 1), seen.append)


def test_hints_are_instructions_on_values_and_checks_on_numbers():
    def kernel(n):
        mk.assume(n > 0)
        mk.assume(True)
        i = mk.max_contiguous(mk.multiple_of(mk.arange(16) + n, 16), [16])
        mk.max_constancy(i, 4)
        assert mk.multiple_of(32, 16) == 32

    names = [line.split(" = ")[-1].split()[0] for line in lines_of(kernel, n=Type(mk.i32))]
    assert [n for n in names if n.startswith(("assume", "m"))] == [
        "assume",
        "multiple_of",
        "max_contiguous",
        "max_constancy",
    ]


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (lambda n: mk.multiple_of(33, 16), StaticAssertion, "33 is no multiple of 16"),
        (lambda n: mk.multiple_of(n, (4, 4)), TypeMismatch, "multiple_of takes one number"),
        (lambda n: mk.multiple_of(n, 0), TypeMismatch, "a hint needs a positive number"),
        (
            lambda n: mk.assume(False),
            StaticAssertion,
            "mk.assume was told something that does not hold",
        ),
        (lambda n: mk.assume(mk.arange(4) < n), Exception, "the condition must be a scalar"),
        (lambda n: mk.range(4, speed=2), TypeMismatch, "range got an unknown option 'speed'"),
        (lambda n: mk.range(0, 1.5), TypeMismatch, "range needs integer scalars"),
        (lambda n: mk.static_range(n), TypeMismatch, "the end of static_range must be known"),
        (lambda n: mk.static_range(0, 4, 0), TypeMismatch, "step must not be zero"),
        (lambda n: mk.device_print(n), TypeMismatch, "device_print needs a text first"),
        (lambda n: mk.inline(mk.f32, n), TypeMismatch, "the text of at least one target"),
    ],
)
def test_refusals(fn, kind, text):
    def kernel(n, F):
        F(n)

    assert text in refusal(kind, kernel, n=Type(mk.i32), F=fn)


def test_range_is_always_a_loop_and_static_range_never():
    def kernel(y):
        assert isinstance(mk.range(4), RuntimeRange)
        total = 0
        for i in mk.range(4, num_stages=3):
            total += i
        for i in mk.static_range(1, 8, 3):
            total += i
        mk.store(y, 0, total)

    y = np.zeros(1, np.int32)
    run(kernel, y)
    assert y[0] == 6 + 1 + 4 + 7
    assert sum(" for " in f" {line}" for line in lines_of(kernel, y=ptr(mk.i32))) == 1


def test_inline_runs_its_numpy_text():
    def kernel(x, y):
        i = mk.arange(4)
        v = mk.inline(mk.f32, mk.load(x, i), 2.0, msl="fmod(a0, a1)", numpy="np.fmod(a0, a1)")
        mk.store(y, i, v)

    x, y = np.array([1, 2.5, -3.5, 7], np.float32), np.zeros(4, np.float32)
    run(kernel, x, y)
    np.testing.assert_array_equal(y, np.fmod(x, 2))


def test_debug_barrier_is_nothing_in_spmd_kernels():
    def kernel():
        mk.arange(4)
        mk.debug_barrier()

    assert len(lines_of(kernel)) == 1
