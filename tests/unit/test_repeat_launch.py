"""Repeated launches go through native code, and nobody can tell except by the clock."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.errors import DeviceAssertion, EasError, LostWrite
from eas.runtime import get_runtime
from tests.unit.fixed_target import possible_levels

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("learns_soon")

LEVELS = tuple(possible_levels())
SCALE = 2.0
TABLE = [3]


class Settings:
    shift = 1


SETTINGS = Settings()


def doubled(x):
    return x * SCALE


@eas.kernel
def scaled(x, out, N, factor, flip, stride, BLOCK: eas.constexpr = 64, MODE: eas.constexpr = "plain"):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    inside = i < N
    v = mk.load(x, i * stride, inside) * factor
    if MODE == "twice":
        v = doubled(v)
    mk.store(out, i, mk.where(flip, -v, v), inside)


@eas.kernel
def add(a, b, c, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


def fresh(kernel):
    """The same function as another kernel, which has launched nothing yet."""
    return eas.kernel(kernel.fn)


def never_repeats(kernel):
    twin = fresh(kernel)
    twin._learn = lambda *_: None
    return twin


def arrays(n=100):
    a, b = np.random.default_rng(n).random((2, n), np.float32)
    return a, b, np.zeros(n, np.float32)


def warm(kernel, *args, **kwargs):
    for _ in range(3):
        kernel(*args, **kwargs)


def repeats(ordinary, launch):
    """Whether this launch was native."""
    before = len(ordinary)
    launch()
    return len(ordinary) == before


# --- a random sequence, both ways -----------------------------------------------------------------


def random_array(rng, dtype):
    """512 elements or more, in one of the forms that memory comes in."""
    values = (np.arange(1024) % 37).astype(dtype)  # more than any stride reaches
    kind = rng.choice(["plain"] * 20 + ["offset", "strided", "matrix", "misaligned", "frozen", "reversed", "subclass"])
    if kind == "offset":
        return values[rng.randrange(16) :]
    if kind == "strided":
        return values[::2]
    if kind == "reversed":
        return values[::-1]
    if kind == "matrix":
        return values[: (len(values) // 4) * 4].reshape(-1, 4)
    if kind == "misaligned":
        bytes_ = np.zeros(values.nbytes + 1, np.uint8)
        bytes_[1:] = values.view(np.uint8)
        return bytes_[1:].view(dtype)
    if kind == "frozen":
        values.flags.writeable = False
    return values.view(np.recarray) if kind == "subclass" else values


def mostly(rng, usual, *odd):
    return rng.choice(usual) if rng.random() < 0.9 else rng.choice(odd)


OPTIONS = (
    *({"_grid": (4,)}, {"_grid": 4}, {"_grid": lambda meta: (-(-200 // meta["BLOCK"]),)}, {"_grid": (0, 1)}, {"_grid": -1}),
    *({"_nthreads": 100}, {"_shape": (64,)}, {"_tptg": (1, 1, 1)}, {"_sync": False}),
)


def random_launch(rng):
    n = rng.choice([0, 1, 16, 33, 200, 200, 200])
    dtype = mostly(rng, [np.float32], np.float64, np.int32)
    x, out, grid = random_array(rng, dtype), random_array(rng, dtype), None
    if rng.random() < 0.1:
        out = x
    elif rng.random() < 0.1 and type(x) is np.ndarray and x.flags.c_contiguous:
        out, grid = x.reshape(-1)[3:], 1  # programs that write what others read have no order
    args = {"x": x, "out": out, "N": mostly(rng, [n], np.int64(n), True, float(n), -n)}
    args["factor"] = mostly(rng, [1.5, -0.25], float("inf"), 3, 2**40, np.float32(2))
    args["flip"] = mostly(rng, [True, False], np.True_, 1)
    args["stride"] = rng.choice([1, 1, 1, 2, 0])
    if out is x and args["stride"] != 1:
        grid = 1
    if rng.random() < 0.3:
        args["BLOCK"] = mostly(rng, [64, 32], 64.0)
    if rng.random() < 0.3:
        args["MODE"] = rng.choice(["plain", "twice"])
    if rng.random() < 0.03:
        args[rng.choice(["y", "x2"])] = 1
    if rng.random() < 0.03:
        del args[rng.choice(list(args))]
    split = rng.choice([0, 3, 6])
    first = list(args)[:split]
    if first != ["x", "out", "N", "factor", "flip", "stride"][:split]:
        first = []
    options = {"_grid": grid} if grid else rng.choice(OPTIONS) if rng.random() < 0.4 else {}
    return [args[n] for n in first], {n: v for n, v in args.items() if n not in first}, options


def aligned_bytes(array):
    """A copy that starts at a multiple of 64, so that equal launches have equal facts."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return memory[start : start + array.nbytes]


def outcome(kernel, positional, named, options):
    """What a caller sees: the error, and all memory afterwards."""
    copies = {}

    def own(value):
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in copies:
            base = value if value.base is None else value.base
            while base.base is not None:
                base = base.base
            root = copies.setdefault(("root", id(base)), aligned_bytes(base))
            start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            made = np.ndarray(value.shape, value.dtype, root, start, value.strides)
            made.flags.writeable = value.flags.writeable
            copies[id(value)] = made.view(type(value))
        return copies[id(value)]

    error = None
    try:
        kernel(*map(own, positional), **{n: own(v) for n, v in named.items()}, **options)
        get_runtime().synchronize()
    except EasError as caught:
        error = (type(caught), str(caught))
    return error, [a.tobytes() for a in copies.values()]


@pytest.mark.parametrize("seed", range(2))
def test_random_launches_are_the_same_natively_and_in_python(seed, monkeypatch, ordinary):
    rng = random.Random(seed)
    fast, slow = fresh(scaled), never_repeats(scaled)
    n_native = n_good = 0
    history = [random_launch(rng)]
    for step in range(400):
        if rng.random() < 0.02:
            monkeypatch.setitem(globals(), "SCALE", rng.choice([2.0, 3.0, -1.0]))
        if rng.random() < 0.02:
            name, value = rng.choice([("EAS_NUM_THREADS", "1"), ("EAS_NOOPT", "1"), ("EAS_NUM_THREADS", "2"), ("EAS_CPU", rng.choice(LEVELS))])
            monkeypatch.setenv(name, value)
        if rng.random() < 0.05:
            monkeypatch.delenv("EAS_NOOPT", raising=False)
        launch = rng.choice(history) if rng.random() < 0.6 else random_launch(rng)
        history.append(launch)
        want = outcome(slow, *launch)
        before = len(ordinary)
        got = outcome(fast, *launch)
        assert got == want, (step, launch)
        n_good += want[0] is None
        n_native += want[0] is None and len(ordinary) == before
    assert n_native > n_good / 4


# --- what is seen at every launch -----------------------------------------------------------------


def test_third_launch_is_native(ordinary):
    kernel, (a, b, c) = fresh(add), arrays()
    for launch in range(5):
        c[:] = 0
        kernel(a, b, c, 100, BLOCK=64)
        assert (c == a + b).all()
        assert len(ordinary) == min(launch + 1, 2)


@pytest.mark.parametrize("grid", [2, (2,), (2, 1), lambda meta: (2,), lambda meta, args: 2])
def test_grids_of_every_kind_are_native(ordinary, grid):
    kernel, (a, b, c) = fresh(add), arrays()
    for _ in range(3):
        kernel[grid](a, b, c, 100, BLOCK=64)
    assert repeats(ordinary, lambda: kernel[grid](a, b, c, 100, BLOCK=64))
    assert (c == a + b).all()


def test_callable_grid_is_called_once():
    kernel, (a, b, c), calls = fresh(add), arrays(), []
    for i in range(4):
        kernel[lambda meta: calls.append(meta["N"]) or (2,)](a, b, c, 100, BLOCK=64)
        assert len(calls) == i + 1


def test_many_signatures_in_turn(ordinary):
    kernel, (a, b, c) = fresh(add), arrays()
    for _ in range(3):
        for block in (8, 16, 32, 64, 128, 256, 512):
            c[:] = 0
            kernel(a, b, c, 100, BLOCK=block)
            assert (c == a + b).all()
    assert len(ordinary) == 14


def test_edited_global_helper_default_and_closure(ordinary, monkeypatch):
    power = 1.0

    def offset(x, by=1.0):
        return x + by * power

    def body(x, out, N, BLOCK: eas.constexpr = 64):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(out, i, doubled(offset(mk.load(x, i, i < N))), i < N)

    kernel, x, out = eas.kernel(body), np.ones(50, np.float32), np.zeros(50, np.float32)

    def now():
        warm(kernel, x, out, 50)
        assert repeats(ordinary, lambda: kernel(x, out, 50))
        return out[0]

    assert now() == 4
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert (kernel(x, out, 50), out[0]) == (None, 10)
    assert now() == 10
    power = 3.0
    assert (kernel(x, out, 50), out[0]) == (None, 20)
    offset.__defaults__ = (2.0,)
    assert (kernel(x, out, 50), out[0]) == (None, 35)
    assert now() == 35
    body.__defaults__ = (32,)
    assert now() == 35
    monkeypatch.setitem(globals(), "SCALE", float("5.0"))  # an equal one
    assert now() == 35


def test_globals_that_change_in_place(ordinary):
    @eas.kernel
    def kernel(out):
        mk.store(out, 0, TABLE[0] + SETTINGS.shift)

    out = np.zeros(1, np.int32)
    warm(kernel, out)
    assert repeats(ordinary, lambda: kernel(out))
    try:
        TABLE[0] = 10
        assert (kernel(out), out[0]) == (None, 11)
        SETTINGS.shift = 5
        assert (kernel(out), out[0]) == (None, 15)
        warm(kernel, out)
        assert repeats(ordinary, lambda: kernel(out))
        assert out[0] == 15
    finally:
        TABLE[0], SETTINGS.shift = 3, 1


def test_mutable_meta_and_methods_stay_in_python(ordinary):
    class Holder:
        amount = 1

        def body(self, out, SIZES: eas.constexpr):
            mk.store(out, 0, self.amount + SIZES[0])

    holder, sizes, out = Holder(), [1], np.zeros(1, np.int32)
    kernel = eas.kernel(holder.body)
    warm(kernel, out, SIZES=sizes)
    assert not repeats(ordinary, lambda: kernel(out, SIZES=sizes))
    sizes[0], holder.amount = 5, 10
    assert (kernel(out, SIZES=sizes), out[0]) == (None, 15)


def test_environment(ordinary, monkeypatch, capsys):
    kernel, (a, b, c) = fresh(add), arrays()

    def launch():
        kernel(a, b, c, 100, BLOCK=64)

    warm(kernel, a, b, c, 100, BLOCK=64)
    monkeypatch.setenv("EAS_DEBUG", "2")
    launch()
    assert "add" in capsys.readouterr().err
    monkeypatch.setenv("EAS_DEBUG", "no number")
    with pytest.raises(EasError, match="EAS_DEBUG"):
        launch()
    monkeypatch.delenv("EAS_DEBUG")
    assert repeats(ordinary, launch)
    monkeypatch.setenv("EAS_BACKEND", "interp")
    before = len(ordinary)
    launch()
    assert len(ordinary) == before
    monkeypatch.setenv("EAS_BACKEND", "nowhere")
    with pytest.raises(EasError, match="EAS_BACKEND"):
        launch()
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    warm(kernel, a, b, c, 100, BLOCK=64)
    assert repeats(ordinary, launch)


def test_environment_that_is_replaced(ordinary, monkeypatch):
    kernel, (a, b, c) = fresh(add), arrays()
    warm(kernel, a, b, c, 100, BLOCK=64)
    monkeypatch.setattr("os.environ", {"EAS_BACKEND": "nowhere"})
    with pytest.raises(EasError, match="EAS_BACKEND"):
        kernel(a, b, c, 100, BLOCK=64)


def test_checked_bounds_are_checked_after_unchecked_launches(monkeypatch):
    kernel, (a, b, c) = fresh(add), arrays(64)
    warm(kernel, a, b, c, 64, BLOCK=64)
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    for _ in range(4):
        with pytest.raises(EasError, match="out of"):
            kernel(a, b, c[:32], 64, BLOCK=64)
        kernel(a, b, c, 64, BLOCK=64)


def test_code_of_another_cpu_is_not_repeated(ordinary, monkeypatch):
    kernel, (a, b, c) = fresh(add), arrays()
    for level in (*LEVELS, *LEVELS):
        monkeypatch.setenv("EAS_CPU", level)
        before = len(ordinary)
        warm(kernel, a, b, c, 100, BLOCK=64)
        assert len(ordinary) > before
        assert repeats(ordinary, lambda: kernel(a, b, c, 100, BLOCK=64))
    monkeypatch.setenv("EAS_CPU", "pentium")
    with pytest.raises(EasError, match="EAS_CPU"):
        kernel(a, b, c, 100, BLOCK=64)


def test_facts_choose_the_variant(ordinary):
    kernel, (a, b, _) = fresh(add), arrays(256)
    memory = np.zeros(400, np.float32)
    for n in (256, 255, 16, 1, 0):
        for out in (memory[:256], memory[1:257], memory[100:356], a, a[:]):
            for _ in range(3):
                want = a[:n] + b[:n]
                kernel(a, b, out, n, BLOCK=64)
                assert (out[:n] == want).all()


def test_copy_of_an_aligned_array_is_not_taken_for_aligned():
    """Facts hold of the memory that a kernel runs on, not of the argument that it was copied from."""
    memory = np.zeros(4096, np.float32)
    start = (-memory.ctypes.data % 64) // 4
    strided = memory[start : start + 2048 : 2]
    x = np.ones(1024, np.float32)
    for _ in range(20):
        kernel = fresh(add)
        kernel(strided, x, x, 1024, BLOCK=64)


def test_numbers_have_the_same_bits(ordinary):
    @eas.kernel
    def bits(out, value):
        mk.store(out, 0, value)

    for value in (float("nan"), -float("nan"), -0.0, 1e-46, 1e39, 0.1, 2**40, -(2**63), 7, True):
        out = np.zeros(1, np.float32 if type(value) is float else np.int64)
        bits(out, value)
        want = out.tobytes()
        bits(out, value)
        out[:] = 0
        assert repeats(ordinary, lambda out=out, value=value: bits(out, value))
        assert out.tobytes() == want


@pytest.mark.parametrize("known", [7, 2**40])
def test_integers_of_more_than_64_bits_are_those_of_a_first_launch(known):
    """Native code would read -1 for them, which is an integer like any other."""

    @eas.kernel
    def put(out, value):
        mk.store(out, 0, value)

    kernel = fresh(put)
    warm(kernel, np.zeros(1, np.int64), known)
    for value in (2**63, 2**64 - 1, 2**64, 2**100, -(2**63) - 1, -(2**100), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)):
        out = np.zeros(1, np.int64)
        assert outcome(kernel, [out, value], {}, {}) == outcome(fresh(put), [out, value], {}, {}), value


def test_failing_kernel_raises_the_same_error(ordinary):
    @eas.kernel
    def picky(x, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.device_assert(mk.load(x, i, i < N) >= 0, "no negative numbers")
        mk.store(x, i, 1, i < N)

    x = np.full(100, -1, np.int32)
    with pytest.raises(DeviceAssertion) as first:
        picky(x, 100, BLOCK=32, _grid=(1,))
    x[:] = 0
    warm(picky, x, 100, BLOCK=32)
    x[:] = -1
    with pytest.raises(DeviceAssertion) as later:
        assert repeats(ordinary, lambda: picky(x, 100, BLOCK=32, _grid=(1,)))
    assert str(later.value) == str(first.value)
    frames = [entry.path.name for entry in later.traceback if not isinstance(entry.path, str)]
    assert not any(name in ("kernel.py", "cpu.py", "native_plan.py") for name in frames)
    x[:] = 0
    assert repeats(ordinary, lambda: picky(x, 100, BLOCK=32))


def test_torch_tensors_take_turns_with_arrays(ordinary):
    torch = pytest.importorskip("torch")
    kernel, (a, b, c) = fresh(add), arrays()
    warm(kernel, a, b, c, 100, BLOCK=64)
    for _ in range(3):
        out = torch.zeros(100)
        before = out._version
        kernel(torch.from_numpy(a), torch.from_numpy(b), out, 100, BLOCK=64)
        assert (out.numpy() == a + b).all()
        assert out._version > before
    assert repeats(ordinary, lambda: kernel(a, b, c, 100, BLOCK=64))


def test_storage_of_another_type_is_not_taken_for_the_type(ordinary):
    torch = pytest.importorskip("torch")

    @eas.kernel
    def double(x, out, N, BLOCK: eas.constexpr = 64):
        i = mk.arange(0, BLOCK)
        mk.store(out, i, mk.load(x, i, i < N) * 2, i < N)

    x, out = torch.full((8,), 1.5, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    warm(double, x, out, 8)
    assert repeats(ordinary, lambda: double(x, out, 8))
    assert (out == 3).all()
    bits, answer = np.full(8, 7, np.uint16), np.zeros(8, np.uint16)
    for _ in range(3):
        double(bits, answer, 8)
        assert (answer == 14).all()


def test_strided_arguments_and_numpy_numbers_are_native_after_staging(ordinary):
    kernel, (a, b, c) = fresh(add), arrays(200)
    for _ in range(4):
        c[:] = 0
        kernel(a[::2], b[::2], c[::2], np.int64(100), BLOCK=64)
        assert (c[::2] == a[::2] + b[::2]).all()
        assert not c[1::2].any()
    assert len(ordinary) < 4


def test_numpy_meta_is_not_taken_for_a_python_one(ordinary):
    kernel, (a, b, c) = fresh(add), arrays()
    for n, block in [(np.int64(100), np.int64(64)), (100, np.int64(64)), (100, 64)] * 3:
        kernel(a, b, c, n, BLOCK=block)
    assert len(kernel._compiled) == 2


def test_device_print_is_printed_each_time(capfd):
    @eas.kernel
    def talks(x):
        mk.device_print("seen", mk.load(x, 0))

    x = np.zeros(1, np.int32)
    for i in range(5):
        x[0] = 1000 + i
        talks(x)
        assert str(1000 + i) in "".join(capfd.readouterr())


def test_launchers_die_with_their_kernel():
    kernel, (a, b, c) = fresh(add), arrays()
    warm(kernel, a, b, c, 100, BLOCK=64)
    (compiled,) = kernel._compiled.values()
    code = weakref.ref(compiled.variant(next(compiled._variants.items())[0].facts).loaded.code)
    del kernel, compiled
    gc.collect()
    assert code() is None


def test_many_threads_and_signatures():
    kernel, wrong = fresh(add), []

    def work(seed):
        a, b, c = arrays(300 + seed)
        for i in range(200):
            c[:] = 0
            kernel(a, b, c, len(c), BLOCK=(32, 64, 128, 256, 512, 1024)[(i + seed) % 6])
            if (c != a + b).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- launches that nobody waits for ---------------------------------------------------------------


def block_the_queue():
    """Later launches wait until the event is set."""
    gate = threading.Event()
    get_runtime().queue.submit(lambda: gate.wait(20) and None, 64)
    return gate


def test_synchronous_launch_waits_for_those_before_it(ordinary):
    kernel, (a, b, c) = fresh(add), arrays()
    warm(kernel, a, b, c, 100, BLOCK=64)
    gate, d = block_the_queue(), np.zeros(100, np.float32)
    threading.Timer(0.1, gate.set).start()
    c[:] = 0
    kernel(a, b, c, 100, BLOCK=64, _sync=False)
    assert not c.any()
    assert not repeats(ordinary, lambda: kernel(c, c, d, 100, BLOCK=64))
    assert (d == 2 * (a + b)).all()
    assert repeats(ordinary, lambda: kernel(a, b, c, 100, BLOCK=64))


@pytest.mark.parametrize("staged", [0, 2])
def test_copies_come_back_after_the_kernel_has_ended(staged):
    kernel, (a, b, c) = fresh(add), arrays()
    wide = np.full(200, 7, np.float32)
    args = [a, b, c]
    wide[::2] = args[staged]
    args[staged] = wide[::2]
    gate = block_the_queue()
    threading.Timer(0.1, gate.set).start()
    kernel(*args, 100, BLOCK=64, _sync=False)
    assert (args[2] == a + b).all()
    assert (wide[1::2] == 7).all()


def test_misaligned_arrays_run_on_copies():
    kernel, (a, b, _) = fresh(add), arrays()
    out = np.zeros(401, np.uint8)[1:].view(np.float32)
    for options in ({}, {"_sync": False}, {}, {}):
        out[:] = 0
        kernel(a, b, out, 100, BLOCK=64, **options)
        assert (out == a + b).all()


def test_memory_of_a_pending_launch_stays():
    kernel, (a, b, c) = fresh(add), arrays(10_000)
    gate = block_the_queue()
    x, y = a.copy(), b.copy()
    memory = weakref.ref(x)
    kernel(x, y, c, 10_000, BLOCK=64, _sync=False)
    del x, y
    gc.collect()
    assert memory() is not None
    gate.set()
    get_runtime().synchronize()
    assert (c == a + b).all()
    for _ in range(100):
        if memory() is None:
            break
        time.sleep(0.01)
    assert memory() is None


def test_lost_writes_are_refused_after_native_launches():
    kernel, (a, b, c) = fresh(add), arrays()
    warm(kernel, a, b, c, 100, BLOCK=64)
    c.flags.writeable = False
    with pytest.raises(LostWrite):
        kernel(a, b, c, 100, BLOCK=64)


# --- a warm process -------------------------------------------------------------------------------

WARM = """
import sys, time
import numpy as np
from examples.add import add_kernel
a = np.ones(1031, np.float32)
c = np.zeros_like(a)
for _ in range(4):
    add_kernel(a, a, c, 1031, BLOCK=256)
assert (c == 2).all()
print("llvmlite" in sys.modules)
"""


def test_warm_process_does_not_import_llvm(tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    root = Path(__file__).parents[2]
    seen = [subprocess.run([sys.executable, "-c", WARM], cwd=root, check=True, capture_output=True, text=True).stdout.strip() for _ in range(2)]
    assert seen == ["True", "False"]
