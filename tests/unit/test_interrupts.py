"""Ctrl-C while kernels run or compile, and the GIL: who waits for a launch, and for how long."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import eas
from eas import mk
from eas.analysis.cost import most_work
from eas.metal_sim import toolchain
from tests.unit.hang_scripts import run_script

needs_sim = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason="needs the software Metal")

# Sends SIGINT to this process 0.3 s from now, and knows when.
INTERRUPT = """
def interrupt(after=0.3):
    def send():
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    sent.clear()
    threading.Thread(target=send, daemon=True).start()

sent = []

def interrupted(work, within=0.2, after=0.3):
    interrupt(after)
    try:
        work()
    except KeyboardInterrupt:
        late = time.monotonic() - sent[0]
        assert late < LATE * within, f"{late:.2f} s"
    else:
        raise AssertionError("not interrupted")
"""
# A machine that runs other tests may not give us a core for seconds; the work itself would take minutes, or six seconds at least.
LATE = "LATE = 10\n"


def interrupts(text, **options):
    return run_script(LATE + INTERRUPT + "\n" + textwrap.dedent(text), **options)


# --- the GIL ----------------------------------------------------------------------------------------


@eas.kernel
def add(x, y, n, BLOCK: eas.constexpr = 128):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < n) + 1.0, i < n)


@eas.kernel
def count_up(x, n):
    for i in range(n):
        mk.store(x, 0, mk.load(x, 0) + i)


@eas.kernel
def count_to(x, N: eas.constexpr, FLAG: eas.constexpr):
    for i in range(N if FLAG else mk.load(x, 1)):
        mk.store(x, 0, mk.load(x, 0) + i)


@eas.kernel
def halve(x):
    while mk.load(x, 0) > 1:
        mk.store(x, 0, mk.load(x, 0) // 2)


@eas.kernel
def maybe(x, n, STEPS: eas.constexpr):
    if mk.load(x, 0) > n:
        total = mk.load(x, 1)
        for _ in range(STEPS):
            total = total * 3 + 1
        mk.store(x, 1, total)


@eas.kernel
def threads(x):
    i = mk.tid(0, 64)
    mk.store(x, i, mk.load(x, i) + 1)


FLOATS, INTS = np.zeros(256, np.float32), np.zeros(256, np.int32)


@pytest.mark.parametrize(
    ("kernel", "args", "least", "most"),
    [
        (add, (FLOATS, FLOATS, 256), 4 * 128, 16 * 128),
        (threads, (INTS,), 64, 64 * 20),
        (maybe, (INTS, 3, 1000), 2000, 20_000),  # a branch that was never taken counts
        (count_up, (INTS, 3), None, None),
        (count_to, (INTS, 100, True), 300, 3000),
        (count_to, (INTS, 100, False), None, None),
        (halve, (INTS,), None, None),
    ],
)
def test_most_work(kernel, args, least, most):
    found = most_work(kernel.compile(*args).ir)
    assert found is None if least is None else least <= found <= most


def test_work_of_code_from_the_disk_cache_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    found = []
    for _ in range(2):
        kernel = eas.Kernel(add.fn)
        kernel[2](FLOATS, FLOATS, 256)
        (compiled,) = kernel._compiled.values()
        (variant,) = compiled._variants.values()
        found.append(variant.native.work_per_program)
    assert found[0] == found[1] is not None


def test_gil_is_free_while_a_launch_may_be_long():
    run_script("""
        x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
        for _ in range(300):
            spin[4](x, y, 1)  # natively launched, and known as short
        assert spin._table
        ticks, stop = [0], []

        def tick():
            while not stop:
                ticks[0] += 1
                time.sleep(0.001)

        threading.Thread(target=tick, daemon=True).start()
        time.sleep(0.05)
        before, start = ticks[0], time.monotonic()
        spin[4](x, y, 50_000_000)
        assert time.monotonic() - start > 0.05
        assert ticks[0] - before > 10, ticks[0] - before
        stop.append(1)
    """)


# --- Ctrl-C while kernels run -----------------------------------------------------------------------

LAUNCH = """
    x, y = np.ones(100_000, np.float32), np.zeros(100_000, np.float32)
    small = np.zeros(100, np.float32)
    def works():
        spin[4](x, y, 10)
        scale(x, small, 2.0, 100)
        scale(small, small, 2.0, 100, _sync=False)
        get_runtime().synchronize()
        assert (small == 4).all()
    works()
"""


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("noopt", ["0", "1"])
def test_kernel_of_many_programs_is_interrupted(threads, noopt):
    interrupts(LAUNCH + """
    interrupted(lambda: spin[100_000](x, y, 1_000_000))  # 200 s
    works()
    for _ in range(300):
        spin[8](x, y, 1)
    assert spin._table or os.environ["EAS_NOOPT"] == "1"
    interrupted(lambda: spin[100_000](x, y, 1_000_000))  # known as short, launched natively
    works()
    interrupted(lambda: spin[200](x, y, 30_000_000))  # few programs of 60 ms
    works()
    """, EAS_NUM_THREADS=threads, EAS_NOOPT=noopt)  # fmt: skip


def test_handlers_that_do_not_raise_run_in_time_and_may_launch():
    interrupts(LAUNCH + """
    seen = []
    def handler(signum, frame):
        signal.setitimer(signal.ITIMER_REAL, 0)
        seen.append(time.monotonic())
        works()
        spin[4](x, y[-4:], 10)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    start = time.monotonic()
    spin[500](x, y, 1_000_000)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert time.monotonic() - start > 0.3 and len(seen) >= 2, (time.monotonic() - start, seen)
    assert (y[:500] != 0).all()
    """)  # fmt: skip


def test_scratch_of_a_launch_survives_one_in_a_handler():
    run_script("""
        from eas.runtime.native import jit
        from eas.runtime.native.pool import pool
        from tests.unit.native_kernels import SCRATCH, per_program, slot
        text = SCRATCH.replace("store i64 %seen", "%nap = call i32 @usleep(i32 500)\\n  store i64 %seen").replace("define void", "declare i32 @usleep(i32)\\ndefine void", 1)
        code = jit.load(text)
        def run(n, nbytes):
            out = np.zeros(n + 2, np.int64)
            args = (ctypes.c_uint64 * 1)(out.ctypes.data + 16)
            pool().run(code.address("through_scratch"), ctypes.addressof(args), n, n_threads=2, scratch_nbytes=nbytes)
            assert (out[2:] == np.arange(n)).all() and out[1] == 0 and 1 <= out[0] <= 2, out[:2]
        seen = []
        def handler(signum, frame):
            seen.append(1)
            run(20, 100_000 + 10_000 * len(seen))
            signal.setitimer(signal.ITIMER_REAL, 0.06)
        run(20, 8000)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.06)
        run(1000, 8000)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert seen
    """)


def test_synchronize_is_interrupted_and_stops_what_it_waits_for():
    interrupts(LAUNCH + """
    scale(y, y, 2.0, 100_000)
    def work():
        spin[100_000](x, y, 1_000_000, _sync=False)
        scale(y, y, 2.0, 100_000, _sync=False)
        get_runtime().synchronize()
    interrupted(work)
    start = time.monotonic()
    works()
    scale(x, y, 3.0, 100_000)
    assert (y == 3).all()
    assert time.monotonic() - start < 20
    get_runtime().synchronize()  # it has been told
    """)  # fmt: skip


def test_interrupted_wait_at_exit_is_no_success():
    done = run_script("""
        x, y = np.ones(100_000, np.float32), np.zeros(100_000, np.float32)
        spin[100_000](x, y, 1_000_000, _sync=False)
        def send():
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send, daemon=True).start()
    """, status=120)  # fmt: skip
    assert "eas: KeyboardInterrupt at exit: 1 launch did not end" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("on", ["interp", pytest.param("sim", marks=needs_sim)])
def test_other_backends_are_interrupted(on):
    interrupts("""
    x, y = np.ones(100_000, np.float32), np.zeros(100_000, np.float32)
    steps = 20_000 if get_runtime().name == "sim" else 1000
    spin[4](x, y, 10)
    interrupted(lambda: spin[100_000](x, y, steps))
    spin[4](x, y, 10)
    if get_runtime().name == "sim":
        def work():
            spin[100_000](x, y, steps, _sync=False)
            get_runtime().synchronize()
        interrupted(work)
        spin[4](x, y, 10)
        get_runtime().synchronize()
    """, backend=on)  # fmt: skip


# --- Ctrl-C while kernels are compiled ----------------------------------------------------------------


@pytest.mark.parametrize("on", ["cpu", "interp"])
def test_a_compilation_that_was_interrupted_anywhere_leaves_nothing_behind(on):
    run_script("""
        import random
        from eas import mk
        from eas.base import locks
        from eas.frontend.active import is_tracing
        from tests.unit.hang_scripts import sum_rows
        x = np.arange(200, dtype=np.float32).reshape(4, 50)

        def launch(kernel):
            y = np.zeros(4, np.float32)
            kernel[4](x, y, 50)
            assert np.array_equal(y, x.sum(axis=1))

        def at_event(k, kernel):
            left = [k]
            def profile(frame, event, arg):
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
            sys.setprofile(profile)
            try:
                launch(kernel)
                return True
            except KeyboardInterrupt:
                return False
            finally:
                sys.setprofile(None)

        launch(sum_rows)
        events = 1
        while not at_event(events, eas.Kernel(sum_rows.fn)):
            events *= 2
        draw = random.Random(0)
        for _ in range(30):
            kernel = eas.Kernel(sum_rows.fn)
            at_event(draw.randrange(1, events), kernel)
            assert not is_tracing()
            assert not [lock for lock in locks._registered if lock._is_owned()]
            in_time = threading.Timer(20, os.abort)
            in_time.start()
            launch(kernel)
            in_time.cancel()
        get_runtime().synchronize()
    """, backend=on, EAS_CACHE="0")  # fmt: skip


def test_a_long_compilation_is_interrupted():
    interrupts("""
    from eas.runtime.native import jit
    from tests.unit.hang_scripts import long_text
    jit.compile_object("define void @f() { ret void }")
    text = long_text(2500)
    interrupted(lambda: jit.compile_object(text), within=1, after=0.05)
    start = time.monotonic()
    assert jit.compile_object("define void @f() { ret void }")  # waits for what is left
    assert time.monotonic() - start > 0.02, "the text is too short for this test"
    in_child(lambda: jit.compile_object("define void @g() { ret void }"))
    interrupted(lambda: jit.compile_object(text), within=1, after=0.05)  # and the process ends well
    """, EAS_CACHE="0")  # fmt: skip


def test_errors_of_a_long_compilation_are_raised():
    from eas.runtime.native import jit

    with pytest.raises(jit.CodeError, match="LLVM refuses"):
        jit.compile_object("; " + "x" * 30_000 + "\ndefine nonsense")


def test_the_first_interrupt_of_a_process_waits_for_no_import(tmp_path):
    """The error passes our functions, which would take modules from disk to take themselves out of its traceback."""
    for _ in range(2):  # the second process finds the kernel on disk, and has imported next to nothing
        interrupts("""
        x, y = np.ones(4000, np.float32), np.zeros(4000, np.float32)
        spin[4](x, y, 10)
        before = set(sys.modules)
        interrupted(lambda: spin[4000](x, y, 2_000_000))
        assert set(sys.modules) - before == set(), set(sys.modules) - before
        """, EAS_CACHE_DIR=str(tmp_path))  # fmt: skip
