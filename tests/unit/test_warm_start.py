"""Kernels of an earlier process: found without tracing, and never with old numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.types import Space, Type
from eas.frontend.constexpr import Static
from eas.launch import warm_start
from eas.runtime import get_runtime
from eas.runtime.disk_cache import default_cache

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not get_runtime("cpu").is_available(), reason="needs the CPU backend")

KERNEL = """
import eas, helpers
from eas import mk
import numpy as np

SCALE = 2.0
TABLE = [1, 2, 3]
WEIGHTS = np.array([1.0, 2.0], np.float32)

def twice(v):
    return v * SCALE

def outer():
    shift = 1.0
    @eas.kernel
    def closed(x, y, N, BLOCK: eas.constexpr):
        offs = mk.arange(0, BLOCK)
        mk.store(y, offs, mk.load(x, offs, offs < N) + shift, offs < N)
    return closed

closed = outer()

@eas.kernel
def kernel(x, y, N, BLOCK: eas.constexpr, BIAS: eas.constexpr = 0.5):
    offs = mk.arange(0, BLOCK)
    v = mk.load(x, offs, offs < N)
    mk.store(y, offs, twice(v) + TABLE[2] + float(WEIGHTS[1]) + helpers.more(v) + BIAS, offs < N)

@eas.kernel
def failing(x, y, N, BLOCK: eas.constexpr):
    offs = mk.arange(0, BLOCK)
    v = mk.load(x, offs, offs < N, other=1.0)
    mk.device_assert(v > 0.0, "must be positive")
    mk.store(y, offs, v, offs < N)
"""
HELPERS = """
OFFSET = 10.0

def more(v):
    return even_more(v)

def even_more(v):
    return v * 0.0 + OFFSET
"""
RUN = """
import json, sys
import numpy as np
import kernels
x = np.arange(1, 33, dtype=np.float32)
y, z = np.zeros_like(x), np.zeros_like(x)
kernels.kernel(x, y, 32, BLOCK=32)
kernels.closed(x, z, 32, BLOCK=32)
text = ""
try:
    kernels.failing(-x, y * 1, 32, BLOCK=32)
except Exception as error:
    text = str(error)
loaded = [m for m in ("eas.lowering", "eas.frontend.trace", "eas.schedule.cpu_steps", "llvmlite") if m in sys.modules]
print(json.dumps({"y0": float(y[0]), "z0": float(z[0]), "loaded": loaded, "error": text}))
"""


@pytest.fixture
def run(tmp_path):
    """Runs the kernels in a new process, after edits of their files."""
    texts = {"kernels.py": KERNEL, "helpers.py": HELPERS}

    def start(*edits, **environment):
        for name, old, new in edits:
            assert old in texts[name]
            texts[name] = texts[name].replace(old, new)
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        path = os.pathsep.join([str(tmp_path), str(ROOT)])
        env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "EAS_CACHE_DIR": str(tmp_path / "cache"), "EAS_BACKEND": "cpu", "EAS_VERIFY": "0", **environment}
        done = subprocess.run([sys.executable, "-c", RUN], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return start


def test_second_process_loads_no_compiler_and_says_the_same(run):
    first, second = run(), run()
    assert first["y0"] == 2 + 3 + 2 + 10 + 0.5
    assert first["loaded"] != []
    assert {**second, "loaded": []} == {**first, "loaded": []}
    assert second["loaded"] == []
    assert "must be positive" in first["error"]
    assert "at kernels.py:33\n    mk.device_assert(v > 0.0" in first["error"]


@pytest.mark.parametrize(
    ("edit", "y0", "z0"),
    [
        (("kernels.py", "SCALE = 2.0", "SCALE = 3.0"), 18.5, 2),
        (("kernels.py", "TABLE = [1, 2, 3]", "TABLE = [1, 2, 4]"), 18.5, 2),
        (("kernels.py", "np.array([1.0, 2.0]", "np.array([1.0, 3.0]"), 18.5, 2),
        (("kernels.py", "return v * SCALE", "return v * SCALE + 1"), 18.5, 2),
        (("kernels.py", "shift = 1.0", "shift = 2.0"), 17.5, 3),
        (("kernels.py", "= 0.5", "= 1.5"), 18.5, 2),
        (("helpers.py", "OFFSET = 10.0", "OFFSET = 11.0"), 18.5, 2),
        (("helpers.py", "v * 0.0 +", "v +"), 18.5, 2),
    ],
    ids=lambda e: e[2] if isinstance(e, tuple) else "",
)
def test_edit_never_returns_old_numbers(run, edit, y0, z0):
    assert (run()["y0"], run()["z0"]) == (17.5, 2)
    edited = run(edit)
    assert (edited["y0"], edited["z0"]) == (y0, z0)
    assert run()["y0"] == y0


def test_settings_have_code_of_their_own(run):
    run()
    assert run(EAS_NOOPT="1")["loaded"] != []
    assert run(EAS_NOOPT="1")["loaded"] == []
    assert run(EAS_CHECK_BOUNDS="1")["loaded"] != []
    assert run()["loaded"] == []
    assert run(EAS_CACHE="0")["loaded"] != []


# --- in one process -------------------------------------------------------------------------------


def identity(fn, **static):
    arguments = {name: Static(value) for name, value in static.items()}
    return warm_start.identify(fn, {"x": Type(dtypes.f32, (), Space.DEVICE), **arguments}, "safe")


class Holder:
    value = 3


HELD = Holder()


def plain(x):
    mk.store(x, 0, 1.0)


def reads_environment(x):
    mk.store(x, 0, float(os.environ.get("FACTOR", "1")))


def reads_a_file(x):
    mk.store(x, 0, float(len(open(__file__).read())))  # noqa: SIM115


def draws(x):
    mk.store(x, 0, float(np.random.rand()))


def loads_an_array(x):
    mk.store(x, 0, float(np.load("weights.npy")[0]))


def imports(x):
    import time

    mk.store(x, 0, time.time())


def asks_an_object(x):
    mk.store(x, 0, float(HELD.value))


def asks_dynamically(x):
    mk.store(x, 0, float(getattr(sys, "maxsize")))  # noqa: B009


def tells(x):
    mk.static_print("traced")
    mk.store(x, 0, 1.0)


def asks_the_machine(x):
    mk.store(x, 0, float(eas.runtime.native.host_cpu.num_threads()))


def math_of_numpy(x):
    mk.store(x, 0, float(np.sqrt(2.0)) + np.pi + float(np.float32(1)))


@pytest.mark.parametrize("fn", [reads_environment, reads_a_file, draws, loads_an_array, imports, asks_an_object, asks_dynamically, tells, asks_the_machine])
def test_what_a_key_cannot_hold_has_none(fn):
    assert identity(fn) is None


def test_pure_functions_of_numbers_have_a_key():
    assert identity(plain)
    assert identity(math_of_numpy)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0.0, -0.0), ((1, 2), [1, 2]), ("a", b"a"), (dtypes.f32, dtypes.f16), (np.float32(1), 1.0), (plain, math_of_numpy), ([1, [2]], [[1], 2])],
)
def test_trace_time_values_tell_keys_apart(one, other):
    first, again, second = identity(plain, n=one), identity(plain, n=one), identity(plain, n=other)
    assert first.key == again.key != second.key


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_VERIFY", "0")  # which asks for the passes


@eas.kernel
def double_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * 2, offs < N)


def launch():
    """What a new process does: nothing is in memory."""
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel = eas.Kernel(double_kernel.fn)
    kernel(x, y, 100, BLOCK=32)
    np.testing.assert_array_equal(y, x * 2)
    return kernel.compile(x, y, 100, BLOCK=32)


def test_known_kernel_shows_its_texts_when_asked(on_cpu):
    first, second = launch(), launch()
    assert second.dependencies is not first.dependencies
    assert str(second.traced) == str(first.traced)
    assert str(second.ir) == str(first.ir)
    assert second.llvm == first.llvm
    assert "double_kernel(x: ptr<f32>" in repr(second)
    assert (second.writes, second.reads, second.facts, second.grid_info, second.tptg) == (first.writes, first.reads, first.facts, first.grid_info, first.tptg)


@pytest.mark.parametrize("payload", [b"", b"hello", b"\xe9\x00", b"N", b"i\x01\x00\x00\x00", b"(\x07\x00\x00\x00NNNNNNN"])
def test_well_packed_nonsense_is_compiled_again(on_cpu, monkeypatch, payload):
    keys = []
    put = type(default_cache()).put
    monkeypatch.setattr(type(default_cache()), "put", lambda cache, key, data: (keys.append(key), put(cache, key, data))[1])
    launch()
    mine = [key for key in keys if key.startswith(("summary", "native"))]
    assert len(mine) == 2
    for key in mine:
        good = default_cache().get(key)
        default_cache().put(key, payload)
        launch()
        default_cache().put(key, good)


def test_global_that_changes_while_a_kernel_is_traced_is_not_stored(on_cpu, monkeypatch):
    counted = []

    @eas.kernel
    def counting(x):
        counted.append(1)
        mk.store(x, 0, float(len(counted)))

    remembered = []
    monkeypatch.setattr(warm_start, "remember", lambda *given: remembered.append(given))
    x = np.zeros(1, np.float32)
    counting(x, _grid=1)
    assert remembered == []
