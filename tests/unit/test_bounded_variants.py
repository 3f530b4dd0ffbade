"""What a kernel keeps is bounded: the compiled kernels that were not used for longest go, and their code with them."""

import gc
import threading
import weakref

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime, keys


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_MAX_COMPILED", "8")


def make():
    @eas.kernel
    def scaled(x, F: eas.constexpr):
        mk.store(x, mk.load(x) * 0.0 + F)

    return scaled


def run(kernel, factor, **options):
    x = np.ones(1, np.float32)
    kernel(x, float(factor), _grid=1, **options)
    return x


def code_of(kernel, factor):
    """Of the machine code in memory."""
    (variant,) = kernel.compile(np.ones(1, np.float32), float(factor))._variants.values()
    return weakref.ref(variant.loaded.code)


def test_changing_constexpr_keeps_a_bounded_number():
    kernel = make()
    codes = []
    for i in range(40):
        assert run(kernel, i) == i
        codes.append(code_of(kernel, i))
        assert len(kernel._compiled) <= 8
    gc.collect()
    assert sum(code() is not None for code in codes) <= 8
    assert codes[-1]() is not None


def test_code_goes_without_a_garbage_collection():
    kernel = make()
    gc.collect()
    gc.disable()
    try:
        codes = []
        for i in range(12):
            for _ in range(5):  # with a native launcher
                run(kernel, i)
            codes.append(code_of(kernel, i))
        assert codes[0]() is None
    finally:
        gc.enable()


def test_least_recently_used_goes_first():
    kernel = make()
    for i in range(8):
        run(kernel, i)
    first = kernel.compile(np.ones(1, np.float32), 0.0)
    second = kernel.compile(np.ones(1, np.float32), 1.0)
    for i in range(100, 106):
        run(kernel, i)
    assert kernel.compile(np.ones(1, np.float32), 0.0) is first
    assert kernel.compile(np.ones(1, np.float32), 1.0) is second
    for i in range(200, 210):
        run(kernel, i)
    assert kernel.compile(np.ones(1, np.float32), 0.0) is not first


def test_native_launchers_in_use_stay():
    kernel = make()
    for _ in range(10):
        run(kernel, 7)
    mine = kernel.compile(np.ones(1, np.float32), 7.0)
    for i in range(100, 130):
        run(kernel, i)
        assert run(kernel, 7) == 7
    assert kernel.compile(np.ones(1, np.float32), 7.0) is mine


def test_compiled_kernel_of_the_user_outlives_its_removal():
    kernel = make()
    x = np.ones(1, np.float32)
    mine = kernel.compile(x, 3.0)
    for i in range(100, 120):
        run(kernel, i)
    assert mine not in kernel._compiled.values()
    get_runtime().run(mine.variant(), [x], (1, 1, 1))
    assert x[0] == 3
    assert run(kernel, 3) == 3


def test_launch_in_the_queue_keeps_its_code():
    kernel = make()
    rows = [np.ones(1, np.float32) for _ in range(30)]
    for i, row in enumerate(rows):
        kernel(row, float(i), _grid=1, _sync=False)
    get_runtime().synchronize()
    assert [row[0] for row in rows] == list(range(30))


def test_threads_that_remove_each_others_kernels(monkeypatch):
    monkeypatch.setenv("EAS_MAX_COMPILED", "2")
    kernel = make()
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for factor in rng.integers(0, 6, 60):
            if run(kernel, factor) != factor:
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(kernel._compiled) <= 2 + len(kernel._table)


def test_tensor_launches_are_bounded_too():
    torch = pytest.importorskip("torch")
    kernel = make()
    for i in range(30):
        x = torch.ones(1)
        for _ in range(5):
            kernel(x, float(i), _grid=1)
        assert x[0] == i
        assert len(kernel._compiled) <= 8
    gc.collect()
    assert len(kernel._table) <= 4


def test_settings_do_not_add_up(monkeypatch):
    """Variants of one compiled kernel are bounded as well."""
    kernel = make()
    compiled = kernel.compile(np.ones(1, np.float32), 1.0)
    for i in range(50):
        monkeypatch.setattr(keys, "settings_now", lambda i=i: keys.Settings(False, False, f"level {i}"))
        compiled.variant()
    assert len(compiled._variants) <= 8


def test_choices_of_autotune_are_bounded():
    @eas.autotune(configs=[eas.Config({"B": 4}), eas.Config({"B": 8})], key=["N"], warmup=0, repeat=1)
    @eas.kernel
    def fill(x, N, B: eas.constexpr):
        mk.store(x + mk.arange(B), 1.0, mask=mk.arange(B) < N)

    for n in range(1, 20):
        fill(np.zeros(8, np.float32), n, _grid=1)
    assert len(fill.cache) <= 8
