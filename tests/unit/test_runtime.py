"""The backend contract: names, availability, refusals, timing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import eas
import eas.runtime as runtime_module
from eas import mk
from eas.base import config, errors
from eas.base.backends import names
from eas.ir.text import parse_module
from eas.runtime import BACKENDS, Runtime, UnknownBackend, get_runtime, require
from eas.runtime.metal import MetalRuntime

INCREMENT = """kernel inc(%x: ptr<i32>) spmd {
  %one = const 1 : i32
  %v = load %x : i32
  %w = add %v, %one : i32
  store %x, %w
  yield
}"""


def executable():
    return SimpleNamespace(name="inc", module=parse_module(INCREMENT))


class Missing(Runtime):
    name = "missing"

    def why_unavailable(self):
        return "nobody built it"

    def run(self, executable, args, grid, *, sync=True):
        require(self)


@pytest.mark.parametrize("name", names())
def test_every_name_gives_a_runtime_and_never_raises(name):
    runtime = get_runtime(name)
    assert isinstance(runtime.is_available(), bool)
    assert (runtime.why_unavailable() is None) is runtime.is_available()
    runtime.synchronize()


@pytest.mark.parametrize("name", names())
def test_the_same_object_each_time(name):
    assert get_runtime(name) is get_runtime(name)


@pytest.mark.parametrize("row", BACKENDS, ids=lambda row: row.name)
def test_manifest_rows_name_their_runtime(row):
    assert get_runtime(row.name).name == row.name
    assert row.doc


def test_manifest_and_setting_know_the_same_names():
    assert sorted(names()) == sorted(config.backend.kind.choices)


def test_metal_is_another_name_for_mps():
    assert get_runtime("metal") is get_runtime("mps")


def test_interpreter_is_always_available():
    assert get_runtime("interp").is_available()
    assert require(get_runtime("interp")) is get_runtime("interp")


def test_auto_is_the_first_available_host_backend(monkeypatch):
    assert get_runtime("auto").is_available()
    monkeypatch.setitem(runtime_module._runtimes, "cpu", Missing())
    assert get_runtime("auto") is get_runtime("interp")


def test_none_asks_the_environment(monkeypatch):
    monkeypatch.delenv("EAS_BACKEND", raising=False)
    assert get_runtime() is get_runtime("auto")
    monkeypatch.setenv("EAS_BACKEND", "metal")
    assert get_runtime() is get_runtime("mps")
    monkeypatch.setenv("EAS_BACKEND", "gpu")
    with pytest.raises(config.InvalidSetting):
        get_runtime()


@pytest.mark.parametrize(
    ("name", "hint"), [("metall", "did you mean 'metal'?"), ("CUDA9", "'auto' runs")]
)
def test_unknown_name_lists_the_names(name, hint):
    with pytest.raises(UnknownBackend) as caught:
        get_runtime(name)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, errors.EasError)
    assert "auto, cpu, mps, metal, interp, sim" in str(caught.value)
    assert hint in caught.value.hint


def test_launch_on_a_missing_backend_says_why_and_what_to_set():
    with pytest.raises(errors.BackendUnavailable) as caught:
        Missing().run(executable(), [], (1, 1, 1))
    assert str(caught.value) == (
        "the missing backend is not available: nobody built it\n"
        "  hint: set EAS_BACKEND=interp to run on the NumPy interpreter"
    )


@pytest.mark.left_out(lambda row: row.name == "interp")  # it is always there
@pytest.mark.parametrize("row", BACKENDS, ids=lambda row: row.name)
def test_unavailable_backends_refuse_to_run(row, monkeypatch):
    runtime, x = get_runtime(row.name), np.zeros(1, np.int32)
    monkeypatch.setattr(type(runtime), "why_unavailable", lambda self: "it was taken away")
    with pytest.raises(errors.BackendUnavailable):
        runtime.run(executable(), [x], (1, 1, 1))
    assert x[0] == 0


def test_metal_says_which_part_is_missing(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert MetalRuntime().why_unavailable() == "Metal needs macOS, this is linux (EAS_METAL=software runs it on the software Metal)"
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "eas._metal", None)  # an import of it fails
    said = MetalRuntime().why_unavailable() or ""
    assert "eas._metal cannot be imported" in said
    assert said.endswith("run python tools/build_metal_ext.py")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("EAS_METAL", "software")
    assert (MetalRuntime().why_unavailable() or "").endswith("run EAS_METAL=software python tools/build_metal_ext.py")


def test_run_and_benchmark_launch_as_often_as_said():
    x = np.zeros(1, np.int32)
    runtime, kernel = get_runtime("interp"), executable()
    runtime.run(kernel, [x], (3, 1, 1))
    assert x[0] == 3
    seconds = runtime.benchmark(kernel, [x], (1, 1, 1), warmup=2, repeat=5)
    assert x[0] == 3 + 2 + 5
    assert len(seconds) == 5
    assert all(s > 0 for s in seconds)


def test_threads_get_one_object(monkeypatch):
    monkeypatch.setattr(runtime_module, "_runtimes", {})
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(get_runtime("interp"))) for _ in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_importing_the_package_loads_no_backend():
    code = (
        "import sys, eas.runtime; print([m for m in sys.modules if m.startswith('eas.runtime.')])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [n for n in names() if n not in ("auto", "metal") and get_runtime(n).is_available()])
def test_every_runtime_refuses_memory_that_is_not_what_the_kernel_was_made_for(name, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", name)
    x = np.zeros(4, np.int32)
    variant = bumped.compile(x, 1, BLOCK=4).variant()
    run = get_runtime(name).run
    wrong = {
        "is a flat, contiguous buffer of i32": [(np.zeros(4, np.float32), 1), (np.zeros((2, 2), np.int32), 1), (np.zeros(8, np.int32)[::2], 1)], "is a buffer of i32, got float": [(3.0, 1)],
        "is 2147483648, which is no i32": [(x, 2**31)], "is 0.5, which is no i32": [(x, 0.5)], "is a number of type i32, got str": [(x, "1")], "takes 2 arguments, got 1": [(x,)],
        "starts in the middle of an element": [(np.zeros(17, np.uint8)[1:].view(np.int32), 1)] if name != "interp" else [],
    }  # fmt: skip
    for text, cases in wrong.items():
        for args in cases:
            with pytest.raises(errors.ArgumentError, match=text):
                run(variant, args, (1, 1, 1))
    assert not x.any()


@eas.kernel
def bumped(x, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(x, i, mk.load(x, i) + n)


@pytest.mark.parametrize("name", [n for n in names() if n not in ("auto", "metal") and get_runtime(n).is_available()])
def test_scalars_of_every_integer_type_reach_the_kernel_at_both_ends(name, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", name)
    kinds = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
    for ends in (0, 1):
        given = [kind((np.iinfo(kind).min, np.iinfo(kind).max)[ends]) for kind in kinds]
        outs = [np.zeros(1, kind) for kind in kinds]
        kept(*outs, *given, _grid=1)
        assert [out[0] for out in outs] == given


@eas.kernel
def kept(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q):
    for out, value in zip((a, b, c, d, e, f, g, h), (i, j, k, m, n, o, p, q), strict=True):
        mk.store(out, 0, value)
