"""`device_print` on the CPU: the same lines as the interpreter, in the same order, and what a full log says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.runtime import get_runtime
from eas.runtime.device_log import HEAD_NBYTES, DeviceLog


@dataclass(frozen=True)
class Format:
    prefix: str
    dtypes: tuple[DType, ...]
    shapes: tuple[tuple[int, ...], ...]


def write(log, place, program, *values):
    """What generated code does; True if the record fitted."""
    payload = b"".join(v.tobytes() + bytes(-v.nbytes % 8) for v in map(np.asarray, values))
    words, nbytes = log._words, 24 + len(payload)
    at = int(words[1])
    words[1] += nbytes
    if at + nbytes > words[0]:
        return False
    words[at // 8 : at // 8 + 3] = nbytes, place, program
    words[at // 8 + 3 : (at + nbytes) // 8] = np.frombuffer(payload, np.int64)
    return True


def shown(log, grid=(4, 3, 2)):
    lines = []
    log.show("k", grid, lines.append)
    return lines


def test_programs_come_in_order_and_so_do_their_records():
    log = DeviceLog([Format("a", (dtypes.i32,), ((),)), Format("b", (), ())], 24)
    for program in (23, 5, 0):
        write(log, 0, program, np.int32(program))
        write(log, 1, program)
        write(log, 0, program, np.int32(-1))
    want = [f"[k pid={pid}] {text}" for pid, n in (("(0,0,0)", 0), ("(1,1,0)", 5), ("(3,2,1)", 23)) for text in (f"a {n}", "b", "a -1")]
    assert shown(log) == want


def test_values_are_read_in_the_form_kernels_compute_in():
    kinds = (dtypes.bool_, dtypes.f16, dtypes.bf16, dtypes.f8e4m3, dtypes.f64, dtypes.i8, dtypes.u64)
    log = DeviceLog([Format("v", kinds, ((3,), (2,), (), (), (1, 2), (5,), ()))], 1)
    write(
        log, 0, 0, np.array([1, 0, 1], np.uint8), np.array([0.1, 2], np.float16).astype(np.float32), np.float32(1.5), np.float32(-448),
        np.array([[0.1, 1e300]]), np.array([-1, 0, 1, 2, 3], np.int8), np.uint64(2**64 - 1),
    )  # fmt: skip
    (line,) = shown(log)
    assert line == "[k pid=(0,0,0)] v [ True False  True] [0.1 2. ] 1.5 -448. [[1.e-001 1.e+300]] [-1  0  1  2  3] 18446744073709551615"


@pytest.mark.parametrize(("records", "text"), [(3, ""), (4, "1 record dropped"), (10, "7 records dropped")])
def test_full_log_says_how_many_records_were_dropped(capsys, records, text):
    log = DeviceLog([Format("a", (dtypes.i32,), ((),))], 1, nbytes=HEAD_NBYTES + 3 * 32 + 24)
    assert [write(log, 0, i, np.int32(i)) for i in range(records)] == [i < 3 for i in range(records)]
    assert len(shown(log)) == 3
    err = capsys.readouterr().err
    assert err == (f"[k] the log of device_print is full: {text}\n" if text else "")


def test_full_log_of_records_of_two_sizes_gives_a_bound(capsys):
    log = DeviceLog([Format("a", (dtypes.i64,), ((8,),)), Format("b", (), ())], 1, nbytes=HEAD_NBYTES + 24)
    write(log, 1, 0)
    for _ in range(5):
        write(log, 0, 0, np.zeros(8, np.int64))
        write(log, 1, 0)
    assert len(shown(log)) == 1
    assert "at least 7 records dropped" in capsys.readouterr().err  # 5 * 88 + 5 * 24 bytes


# --- kernels --------------------------------------------------------------------------------------


@eas.kernel
def many_kernel(x, half, b, q, n):
    pid = mk.program_id(0) + mk.program_id(1) * mk.num_programs(0)
    i = mk.arange(0, 5)
    v = mk.load(x, pid * 5 + i)
    mk.device_print("first", pid, v, v > 0.5)
    for k in range(pid % 3):
        mk.device_print("again", k, mk.load(half, i * (k + 1)), mk.load(b, i)[:, None] + mk.cast(v, mk.bf16)[None, :])
    if pid % 2 == 0:
        mk.device_print("odd sizes", mk.load(q, mk.arange(0, 3)), mk.cast(i, mk.i8), mk.cast(v, mk.f64), n)
    mk.device_print("end")


@eas.kernel
def thread_kernel(x):
    i = mk.tid(40)
    mk.device_print("threads", mk.load(x, i) * 2, i < 7)


@eas.kernel
def failing_kernel(x):
    mk.device_print("before", mk.load(x, mk.program_id(0)))
    mk.device_assert(mk.program_id(0) < 3, "too far")


@pytest.fixture
def lines(monkeypatch, capfd):
    """lines(backend, launch): what a launch prints, on two threads."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("EAS_NUM_THREADS", "2")

    def run(backend, launch):
        monkeypatch.setenv("EAS_BACKEND", backend)
        capfd.readouterr()
        launch()
        got = capfd.readouterr()
        assert got.err == ""
        return got.out.splitlines()

    return run


@pytest.mark.parametrize("is_sync", [True, False])
def test_many_programs_on_two_threads_print_what_the_interpreter_prints(lines, is_sync):
    programs = 24 * 20
    rng = np.random.default_rng(0)
    b, q = eas.tensor([0.1, -2, 3, 1e30, 0], dtype="bf16"), eas.tensor([0.3, -448, 2**-9], dtype="f8e4m3")
    x, half = rng.random(5 * programs, np.float32), rng.random(16).astype(np.float16)

    def launch():
        many_kernel(x, half, b, q, -7, _grid=(24, 20), _sync=is_sync)
        get_runtime().synchronize()

    want = lines("interp", launch)
    assert lines("cpu", launch) == want
    assert sum(" end" in line for line in want) == programs


def test_thread_kernel_prints_a_line_per_threadgroup(lines):
    def launch():
        thread_kernel(np.arange(40, dtype=np.int32), _grid=3)

    assert lines("cpu", launch) == lines("interp", launch) != []


def test_lines_come_also_when_the_launch_fails(lines):
    def launch():
        with pytest.raises(eas.DeviceAssertion, match="too far"):
            failing_kernel(np.arange(8, dtype=np.int32), _grid=5)

    got = lines("cpu", launch)
    assert got[:4] == lines("interp", launch)
