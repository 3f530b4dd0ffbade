"""`x.stride(i)` inside a kernel: strided arguments run on their own memory, without a copy."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk


@eas.kernel
def double(x, y, M, N, BM: eas.constexpr, BN: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    mask = (rows < M) & (cols < N)
    values = mk.load(x, rows * x.stride(0) + cols * x.stride(1), mask)
    mk.store(y, rows * y.stride(0) + cols * y.stride(-1), values * 2, mask)


def run(x, y):
    m, n = x.shape
    double[mk.cdiv(n, 8), mk.cdiv(m, 4)](x, y, m, n, BM=4, BN=8)


PICKS = {
    "contiguous": lambda a: a,
    "transpose": lambda a: a.T,
    "columns": lambda a: a[:, 1::3],
    "rows": lambda a: a[2::2],
    "inside": lambda a: a[1:-1, 2:-3],
    "one row": lambda a: a[3:4],
    "one column": lambda a: a[:, 5:6],
    "empty": lambda a: a[:, 5:5],
}


def check_doubled(pick, layout, launch):
    """launch(x, y) doubles x into y, which lie in memory as `pick` and `layout` say, and touches nothing else."""
    x = pick(np.arange(21 * 35, dtype=np.float32).reshape(21, 35))
    m, n = x.shape
    shape = {"contiguous": (m, n), "transpose": (n, m), "columns": (m, 3 * n + 1)}[layout]
    base = np.full(shape, -1, np.float32)
    y = PICKS[layout](base)[:m, :n]
    launch(x, y)
    assert np.array_equal(y, 2 * x)
    assert (base == -1).sum() == base.size - x.size


@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
@pytest.mark.parametrize("layout", ["contiguous", "transpose", "columns"])
def test_strided_arguments_are_read_and_written_in_place(backend, pick, layout):
    check_doubled(pick, layout, run)


def test_no_copy_is_made(backend, monkeypatch):
    from eas.interop import arguments

    seen = []
    real = arguments.Staging.prepare

    def prepare(self, view, written, read, strided=False):
        array = real(self, view, written, read, strided)
        seen.append(array.ctypes.data == view.array.ctypes.data)
        return array

    monkeypatch.setattr(arguments.Staging, "prepare", prepare)
    x, y = np.ones((9, 20), np.float32).T, np.zeros((20, 18), np.float32)[:, ::2]
    run(x, y)
    assert seen == [True, True]


def test_torch_and_eas_tensors(backend):
    torch = pytest.importorskip("torch")
    x, y = torch.randn(6, 9).T, torch.zeros(6, 18)[:, ::2].T
    run(x, y)
    assert torch.equal(y, 2 * x)
    a, b = eas.arange(54, dtype="bf16").reshape(6, 9).T, eas.zeros(9, 6, dtype="bf16")
    run(a, b)
    assert b.tolist() == a.clone().copy_(np.arange(0, 108, 2).reshape(6, 9).T).tolist()


def test_repeated_launches_see_new_strides(backend):
    base = np.arange(400, dtype=np.float32).reshape(20, 20)
    for x in (base, base.T, base[:, ::2], base, base[::2], base.T, base):
        y = np.zeros(x.shape, np.float32)
        run(x, y)
        assert np.array_equal(y, 2 * x)


def test_in_place_on_a_strided_array(backend):
    base = np.arange(60, dtype=np.float32).reshape(6, 10)
    want = base.copy()
    want[:, ::2] *= 2
    run(base[:, ::2], base[:, ::2])
    assert np.array_equal(base, want)


def test_a_stride_of_one_is_a_fact_of_its_own(backend):
    assert "equals_1(x_stride1)" in " ".join(map(str, double.compile(np.ones((2, 2)), np.ones((2, 2)), 2, 2, BM=4, BN=8).facts))


# --- refusals -----------------------------------------------------------------------------------


def test_negative_strides_are_refused(backend):
    with pytest.raises(eas.ArgumentError, match=r"argument 'x' has negative strides \(-4, 1\)(.|\n)*hint: pass np.ascontiguousarray\(x\)"):
        run(np.ones((4, 4), np.float32)[::-1], np.zeros((4, 4), np.float32))


def test_an_axis_that_does_not_exist_is_refused(backend):
    with pytest.raises(eas.ArgumentError, match=r"asks for x.stride\(1\), but argument 'x' has shape \(4,\)"):
        double[1, 1](np.ones(4, np.float32), np.zeros((4, 4), np.float32), 2, 2, BM=4, BN=8)


def test_overlapping_outputs_are_refused(backend):
    y = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (4, 4), (4, 4))
    with pytest.raises(eas.LostWrite, match="several of its elements share memory"):
        run(np.ones((4, 4), np.float32), y)


def test_only_buffers_have_strides(backend):
    @eas.kernel
    def wrong(x, n):
        mk.store(x, 0, (x + 1).stride(0))

    with pytest.raises(eas.TypeMismatch, match=r"stride asks a buffer argument of the kernel(.|\n)*hint: call it on the parameter itself"):
        wrong(np.ones(4, np.int32), 1)


def test_a_parameter_may_have_the_name_of_a_hidden_argument(backend):
    @eas.kernel
    def kernel(x, x_stride0, y):
        mk.store(y, 0, x.stride(0) * 100 + x_stride0)

    y = np.zeros(1, np.int32)
    kernel(np.ones((3, 5), np.float32)[:, ::2], 7, y)
    assert y[0] == 507
    with pytest.raises(eas.ArgumentError, match="has no argument `x_stride0_`"):
        kernel(np.ones((3, 5), np.float32), 7, y, x_stride0_=3)


# --- strides as arguments, as kernels written for Triton have them ---------------------------------


@eas.kernel
def told(x, y, M, N, stride_xm, stride_xn, stride_ym, stride_yn, BM: eas.constexpr, BN: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    mask = (rows < M) & (cols < N)
    values = mk.load(x + rows * stride_xm + cols * stride_xn, mask=mask)
    mk.store(y + rows * stride_ym + cols * stride_yn, values * 2, mask=mask)


def steps(a):
    return [step // a.itemsize for step in a.strides]


@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
@pytest.mark.parametrize("layout", ["contiguous", "transpose", "columns"])
def test_strides_that_are_passed_are_applied_once(backend, pick, layout):
    def launch(x, y):
        m, n = x.shape
        for _ in range(2):
            told[mk.cdiv(n, 8), mk.cdiv(m, 4)](x, y, m, n, *steps(x), *steps(y), BM=4, BN=8)

    check_doubled(pick, layout, launch)


def test_other_numbers_named_strides_mean_the_array_without_gaps(backend):
    x, y = np.arange(70, dtype=np.float32).reshape(7, 10)[:, 2:7], np.zeros((7, 5), np.float32)
    told[1, 2](x, y, 7, 5, 5, 1, 5, 1, BM=4, BN=8)
    assert np.array_equal(y, 2 * x)


def test_writes_through_strides_that_meet_are_refused(backend):
    y = np.lib.stride_tricks.as_strided(np.zeros(12, np.float32), (4, 6), (8, 4))
    with pytest.raises(eas.LostWrite, match="several of its elements share memory"):
        told[1, 1](np.ones((4, 6), np.float32), y, 4, 6, 6, 1, 2, 1, BM=4, BN=8)
