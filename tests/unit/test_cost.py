"""What a program moves and computes, told from its IR."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from eas.analysis.cost import Cost, program_cost
from eas.ir.text import parse_module
from eas.runtime import debug

F, H = np.zeros(4096, np.float32), np.zeros(4096, np.float16)


@eas.kernel
def add_kernel(x, y, z, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(z, i, mk.load(x, i, i < n) + mk.load(y, i, i < n), i < n)


@eas.kernel
def softmax_kernel(x, y, n_cols, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    at = mk.program_id(0) * n_cols + cols
    values = mk.load(x, at, cols < n_cols, other=-float("inf"))
    exps = mk.exp(values - mk.max(values))
    mk.store(y, at, exps / mk.sum(exps), cols < n_cols)


@eas.kernel
def dot_kernel(a, b, c, K, STEPS: eas.constexpr):
    i, k = mk.arange(0, 8)[:, None], mk.arange(0, 16)
    acc = mk.zeros([8, 32], mk.f32)
    for step in range(STEPS or K):
        left = mk.load(a, i * 256 + step * 16 + k[None, :])
        acc = mk.dot(left, mk.load(b, (step * 16 + k)[:, None] * 32 + mk.arange(0, 32)[None, :]), acc)
    mk.store(c, i * 32 + mk.arange(0, 32)[None, :], acc)


@eas.kernel
def branch_kernel(x, y, n):
    i = mk.arange(0, 64)
    v = mk.load(x, i)
    if n > 5:
        v = v * v + 1.5
        v = v / 3.0
    else:
        v = v + mk.load(y, i)
    mk.store(y, i, v)


@eas.kernel
def while_kernel(x, y):
    i = mk.arange(0, 64)
    v = mk.load(x, i)
    while mk.max(v) > 1.0:
        v = v * 0.5
    mk.store(y, i, v)


@eas.kernel
def integer_kernel(x, y):
    i = mk.arange(0, 64)
    mk.atomic_add(y, i, mk.load(x, i) * 3 + mk.cast(mk.cast(i, mk.f32), mk.i32))


@eas.kernel
def thread_kernel(x, y):
    t = mk.tid(40)
    tile = mk.alloc_tg(40, mk.f32)
    mk.store(tile, t, mk.load(x, t) * 2.0)
    mk.barrier()
    mk.store(y, t, mk.load(tile, 39 - t))


def cost(kernel, *args, **meta):
    return program_cost(kernel.compile(*args, **meta).ir)


def test_add():
    assert cost(add_kernel, F, F, F, 100, BLOCK=256) == Cost(3 * 256 * 4, 256)
    assert cost(add_kernel, H, H, H, 100, BLOCK=256) == Cost(3 * 256 * 2, 256)


def test_softmax():
    n = 128  # a subtraction, exp, a division; a maximum and a sum of n elements
    assert cost(softmax_kernel, F, F, n, BLOCK=n) == Cost(2 * n * 4, 3 * n + 2 * (n - 1))


@pytest.mark.parametrize("steps", [1, 4])
def test_dot_in_a_loop_of_constant_length(steps):
    moved = steps * (8 * 16 + 16 * 32) * 4 + 8 * 32 * 4
    assert cost(dot_kernel, F, F, F, 4, STEPS=steps) == Cost(moved, steps * 2 * 8 * 16 * 32)


def test_loop_of_unknown_length_makes_unknown_what_is_in_it():
    assert cost(dot_kernel, F, F, F, 4, STEPS=0) == Cost(None, None)
    assert cost(while_kernel, F, F) == Cost(2 * 64 * 4, None)


def test_of_a_branch_the_dearer_side_counts():
    assert cost(branch_kernel, F, F, 7) == Cost(3 * 64 * 4, 3 * 64)


def test_atomics_read_and_write_and_integers_are_no_flops():
    assert cost(integer_kernel, np.zeros(64, np.int32), np.zeros(64, np.int32)) == Cost(3 * 64 * 4, 0)


def test_thread_mode_counts_device_memory_of_all_threads():
    assert cost(thread_kernel, F, F) == Cost(2 * 40 * 4, 40)


@pytest.mark.parametrize(("bounds", "trips"), [((0, 10, 3), 4), ((10, 0, -5), 2), ((5, 5, 1), 0), ((0, 9, 0), 0)])
def test_trips_are_those_of_python(bounds, trips):
    start, end, step = bounds
    text = f"""kernel k(%x: ptr<f32>) spmd {{
  %a = const {start} : i32
  %b = const {end} : i32
  %c = const {step} : i32
  for %a, %b, %c (%i: i32) {{
    %p = addptr %x, %i : ptr<f32>
    %v = load %p : f32
    %w = fma %v, %v, %v : f32
    store %p, %w
    yield
  }}
  yield
}}
"""
    assert program_cost(parse_module(text)) == Cost(trips * 8, trips * 2)


def test_native_code_knows_its_cost_and_launches_report_rates(monkeypatch, capsys):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(debug, "_ledger", debug.Ledger())
    monkeypatch.setattr("atexit.register", lambda f: None)
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_DEBUG", "2")
    native = add_kernel.compile(F, F, F, 100, BLOCK=256).variant().native
    assert (native.nbytes_per_program, native.flops_per_program) == (3 * 256 * 4, 256)
    add_kernel(F, F, np.zeros_like(F), F.size, BLOCK=256, _grid=16)
    assert re.search(r"^\*\*\* CPU +1 add_kernel +grid \(16,1,1\) +mem +[\d.]+ GB tm .*us/ *[\d.]+ms \( *[\d.]+ GFLOPS +[\d.]+ GB/s\)$", capsys.readouterr().err, re.MULTILINE)


@eas.kernel
def counted_kernel(x, y, n, step, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK])
    for first in range(0, n // 2, step):
        total += mk.load(x, first + i)
    mk.store(y, i, total)


def test_numbers_of_a_launch_tell_how_often_a_loop_runs():
    x = np.zeros(256, np.float32)
    module = counted_kernel.compile(x, x, 100, 16, BLOCK=64).variant().module
    assert program_cost(module) == Cost(None, None)
    assert program_cost(module, {"n": 100, "step": 16}) == Cost(5 * 64 * 4, 4 * 64)
