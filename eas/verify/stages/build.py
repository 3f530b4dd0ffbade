"""Stage "build": the package, its extension, and the calls that everything else is made of."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import mmap
import sys
import sysconfig
import time
from types import ModuleType

import numpy as np

import eas
from eas import mk
from eas.base import config
from eas.lib.kernels import constexpr, kernel
from eas.runtime import BACKENDS, get_runtime
from eas.verify import switching
from eas.verify.events import Recorder

FUNCTIONS = ("device_info", "compile", "allocate", "adopt", "wrap", "ask_for_times")
CLASSES = ("Stream", "Plan", "Error")
TEXT = "#include <metal_stdlib>\nkernel void k(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 1.0f; }\n"


@kernel
def add_kernel(a, b, c, N, BLOCK: constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


def run(record: Recorder, _: str) -> None:
    """Versions and settings; then the smallest kernel on each backend; then the extension by itself."""
    record.check("python has its lock", not sysconfig.get_config_var("Py_GIL_DISABLED"), f"python {sys.version.split()[0]}")
    unknown = config.unknown_variables()
    record.check("environment variables are known", not unknown, ", ".join(unknown))
    for row in BACKENDS:
        runtime = get_runtime(row.name)
        why = runtime.why_unavailable()
        if why is not None:
            record.skipped(f"backend {row.name}", why)
            continue
        with record.checking(f"backend {row.name} adds"):
            _add(row.name)
    _extension(record)


def _add(backend: str) -> None:
    a, b = np.arange(1031, dtype=np.float32), np.ones(1031, np.float32)
    c = np.zeros_like(a)
    with switching.backend(backend):
        add_kernel(a, b, c, 1031, BLOCK=256)
    np.testing.assert_array_equal(c, a + b)


def _extension(record: Recorder) -> None:
    runtime = get_runtime("mps")
    why = runtime.why_unavailable()
    if why is not None:
        record.skipped("eas._metal", why)
        return
    from eas.runtime.metal import MetalRuntime

    assert isinstance(runtime, MetalRuntime)
    metal = runtime.extension()
    missing = [name for name in (*FUNCTIONS, *CLASSES) if not hasattr(metal, name)]
    record.check("eas._metal is of this version", not missing, f"it has no {', '.join(missing)}" if missing else str(metal.__file__))
    info = metal.device_info()
    for name, value in info.items():
        record.fact(f"device.{name}", value, "bytes" if name.endswith("nbytes") else "")
    record.check("the GPU has a family that eas knows", info["family"] >= 7, f"{info['name']}: Apple {info['family']}")
    if "virtual" in str(info["name"]).lower():
        record.fact("device.is_paravirtual", True)
    for check in (_pipeline, _compile_error, _memory, _private_storage, _times_of_kernels):
        with record.checking(f"eas._metal: {check.__name__.strip('_').replace('_', ' ')}"):
            check(metal)


def _pipeline(metal: ModuleType) -> None:
    made = metal.compile(TEXT, "k")
    assert made.name == "k", made.name
    assert made.simd_width == 32, f"simdgroups of {made.simd_width} threads"
    assert 32 <= made.max_threads <= 1024, f"threadgroups of at most {made.max_threads} threads"


def _compile_error(metal: ModuleType) -> None:
    try:
        metal.compile(TEXT.replace("1.0f", "undeclared"), "k")
    except metal.Error as error:
        kind, text = error.args
        assert kind == "compile", kind
        assert "undeclared" in text, f"the compiler says: {text}"
    else:
        raise AssertionError("a text with an undeclared name compiles")


def _memory(metal: ModuleType) -> None:
    shared, private = metal.allocate(4096), metal.allocate(4096, True)
    assert shared.nbytes >= 4096
    assert shared.address % mmap.PAGESIZE == 0, "shared memory does not start with a page"
    assert private.nbytes >= 4096
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = np.frombuffer(pages, np.uint8).ctypes.data
    assert metal.wrap(address, 2 * mmap.PAGESIZE, pages).address == address, "wrapped memory has moved"


def _private_storage(_: ModuleType) -> None:
    """Values go in by blits and by the kernel that copies, are used by launches and graphs, and come out again."""
    with switching.backend("mps"):
        x = eas.tensor(np.arange(1031, dtype=np.float32), device="mps", storage="private")
        y = eas.zeros(1031, device="mps", storage="private")
        for _i in range(5):
            add_kernel(x, y, y, 1031, BLOCK=256, _sync=False)
        np.testing.assert_array_equal(y.numpy(), 5 * np.arange(1031, dtype=np.float32))
        np.testing.assert_array_equal(y[::-3].numpy(), 5 * np.arange(1031, dtype=np.float32)[::-3])
        with eas.capture() as graph:
            add_kernel(x, x, y, 1031, BLOCK=256)
        graph.replay()
        small = eas.tensor(np.arange(7, dtype=np.int8), device="mps", storage="private")
        small[1:4].copy_(9)
        assert small.tolist() == [0, 9, 9, 9, 4, 5, 6], small.tolist()
        np.testing.assert_array_equal(y.cpu().numpy(), 2 * np.arange(1031, dtype=np.float32))


def _times_of_kernels(_: ModuleType) -> None:
    """Each launch has a time of its own by the clock of the GPU, below that of the wall."""
    with switching.backend("mps"):
        x = eas.zeros(1 << 16, device="mps")
        start = time.perf_counter()
        with eas.profile() as times:
            for _i in range(4):
                add_kernel(x, x, x, 1 << 16, BLOCK=256, _sync=False)
        wall = time.perf_counter() - start
    (row,) = times
    assert row.launches == 4, f"{row.launches} launches were timed, not 4"
    assert 0 < row.least <= row.seconds < wall, f"{row.seconds} s by the GPU, {wall} s by the wall"
