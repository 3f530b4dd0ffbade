"""The tables of steps: their names, what leaving one out changes, and how the runner tells of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.errors import InvalidIR, InvalidSetting
from eas.ir import make
from eas.passes.steps import Step, observing, run_steps
from eas.schedule.cpu_steps import CPU_STEPS, schedule
from eas.schedule.gpu_steps import METAL_STEPS
from eas.schedule.target import AVX2

TABLES = {"cpu": CPU_STEPS, "metal": METAL_STEPS}


@eas.kernel
def row_norm_kernel(x, y, n, BLOCK: eas.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    value = mk.load(x, row * n + cols, cols < n)
    centred = mk.where(cols < n, value - mk.sum(value) / n, 0.0)
    mk.store(y, row * n + cols, centred * mk.rsqrt(mk.sum(centred * centred) / n + 1e-5), cols < n)


@eas.kernel
def tiles_kernel(a, b, y, K, W: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """A product whose tile is shifted by a flat index taken apart, and stored transposed."""
    rows, cols = mk.program_id(0) * BM + mk.arange(0, BM), mk.arange(0, BN)
    acc = mk.zeros([BM, BN])
    for k in range(0, K, BK):
        inner = k + mk.arange(0, BK)
        acc = mk.dot(mk.load(a, rows[:, None] * K + inner[None, :], inner[None, :] < K), mk.load(b, inner[:, None] * BN + cols[None, :], inner[:, None] < K), acc)
    acc += mk.cast((rows // W)[:, None] + (cols % W)[None, :], mk.f32)
    mk.store(y, cols[:, None] * (mk.num_programs(0) * BM) + rows[None, :], mk.trans(acc))


@eas.kernel
def counts_kernel(x, y, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.atomic_add(y, mk.load(x, i, i < n) % 7, 1, mask=i < n)


def launches():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 100)).astype(np.float32)
    yield row_norm_kernel, (x, np.zeros_like(x), 100), {"BLOCK": 128}, 5
    a, b = rng.integers(-3, 4, (32, 40)).astype(np.float32), rng.integers(-3, 4, (40, 16)).astype(np.float32)
    yield tiles_kernel, (a, b, np.zeros((16, 32), np.float32), 40), {"W": 3, "BM": 16, "BN": 16, "BK": 16}, 2
    yield counts_kernel, (rng.integers(0, 99, 1000).astype(np.int32), np.zeros(7, np.int32), 1000), {"BLOCK": 128}, 8


@pytest.mark.parametrize("table", TABLES)
def test_steps_have_names_of_their_own_and_say_what_they_do(table):
    names = [step.name for step in TABLES[table]]
    assert len(set(names)) == len(names)
    assert [step.name for step in TABLES[table] if not step.doc] == []


@pytest.mark.parametrize("where", ["cpu", pytest.param("sim", marks=pytest.mark.slow)])
def test_results_do_not_depend_on_optional_steps(where, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    want = []
    for kernel, args, meta, grid in launches():
        kernel[grid](*args, **meta)
        want.append(args)
    monkeypatch.setenv("EAS_BACKEND", where)
    for step in TABLES["cpu" if where == "cpu" else "metal"]:
        if not step.is_optional:
            continue
        monkeypatch.setenv("EAS_WITHOUT", step.name)
        for (kernel, args, meta, grid), expected in zip(launches(), want, strict=True):
            kernel[grid](*args, **meta)
            for got, right in zip(args, expected, strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6, err_msg=f"{kernel.__name__} without {step.name}")


def test_required_steps_are_not_left_out(monkeypatch):
    monkeypatch.setenv("EAS_WITHOUT", "partition")
    module = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8).ir
    with pytest.raises(InvalidSetting, match="EAS_WITHOUT=partition leaves out a step that results depend on"):
        schedule(module, AVX2)


@pytest.mark.parametrize("target", ["cpu", "metal"])
@pytest.mark.parametrize("name", ["partitoin", "bake_bread"])
def test_names_that_no_step_has_are_refused(monkeypatch, target, name):
    compiled = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8)
    monkeypatch.setenv("EAS_WITHOUT", f"fold_carried,{name}")
    hint = "did you mean 'partition'" if name == "partitoin" else "the steps are check_gathers, (.*), declare_late"
    with pytest.raises(InvalidSetting, match=rf"there is no step '{name}' of EAS_WITHOUT(.|\n)*{hint}"):
        _ = compiled.llvm if target == "cpu" else compiled.msl


def test_steps_that_change_no_text_say_so():
    steps = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8).steps()
    texts = [str(seen.module) for seen in steps]
    assert [seen.changed for seen in steps[2:]] == [before != after for before, after in pairwise(texts[1:])]


def test_a_schedule_ends_after_the_step_that_is_named():
    module = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8).ir
    assert schedule(module, AVX2, until="partition").attr("scheduled") == "nests"
    assert schedule(module, AVX2).attr("scheduled") == "loops"
    with pytest.raises(InvalidSetting, match=r"there is no step 'partitoin' here(.|\n)*did you mean 'partition'"):
        schedule(module, AVX2, until="partitoin")


def test_a_module_that_a_step_breaks_is_told_with_the_name_of_the_step(monkeypatch):
    def break_it(module, record):
        stray = make("neg", [make("neg", [module.args[2].value]).out])
        return module.with_body(type(module.body)((), (stray, *module.body.body)))

    module = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8).ir
    monkeypatch.setenv("EAS_VERIFY", "1")
    with pytest.raises(InvalidIR, match="after break_it: "):
        run_steps((Step("break_it", break_it),), module, None)


def test_steps_of_a_kernel_are_seen_one_by_one():
    compiled = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8)
    steps = compiled.steps()
    assert [seen.name for seen in steps][:2] == ["trace", "specialise"]
    assert steps[-1].name == CPU_STEPS[-1].name
    assert "nest" in str(steps.after("partition"))
    assert "nest" not in str(steps.after("trace"))
    assert "partition" in str(steps)
    assert "ms" in str(steps)
    assert compiled.steps("metal").after("lower_lanes").mode == "thread"
    with pytest.raises(eas.ArgumentError, match="there are no steps for 'gpu'"):
        compiled.steps("gpu")
    with pytest.raises(InvalidSetting, match="there is no step 'lower_lanes' here"):
        steps.after("lower_lanes")


def test_observers_hear_of_their_own_block_only():
    module = counts_kernel.compile(np.zeros(8, np.int32), np.zeros(7, np.int32), 8, BLOCK=8).ir
    seen = []
    with observing(seen.append):
        schedule(module, AVX2)
    count = len(seen)
    schedule(module, AVX2)
    assert len(seen) == count > 20
