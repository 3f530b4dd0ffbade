"""Stage "speed": what a launch costs, how fast memory is, and which shapes of threadgroups the GPU likes best."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import eas
from eas import mk
from eas.lib.kernels import constexpr, kernel
from eas.runtime import get_runtime
from eas.verify.events import Recorder
from eas.verify.raw_metal import is_software

ROUNDS = 7
THREADS = (32, 64, 128, 256, 512, 1024)
ELEMENTS = (1, 2, 4, 8, 16)


@kernel
def copy_kernel(x, y, N, BLOCK: constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N), i < N)


def seconds_of(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The least time of a call that waits for its result, by the wall."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def device_seconds_of(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The same by the clock of the device, where it has one."""
    runtime = get_runtime()
    call()
    if not runtime.has_clock:
        return seconds_of(call, rounds)
    times = [runtime.seconds_of(call)[1] or 0.0 for _ in range(rounds)]
    return max(min(times), 1e-9)  # clocks of GPUs have ticks


def run(record: Recorder, backend: str) -> None:
    """Three measurements; on a software Metal they are small, and say nothing of a GPU."""
    is_small = record.is_short or (backend == "mps" and is_software(backend))
    for n, measure in enumerate((_launch_cost, _bandwidth, _shapes)):
        if measure is _shapes and backend != "mps":
            record.skipped("shapes of threadgroups", "only a GPU has them")
            continue
        with record.checking(measure.__name__.strip("_").replace("_", " ")):
            measure(record, backend, is_small)
        record.progress(n + 1, 3)


def _pair(n: int, backend: str) -> tuple[Any, Any]:
    device = "mps" if backend == "mps" else "cpu"
    x = eas.tensor(np.arange(n, dtype=np.float32), device=device)
    return x, eas.empty_like(x)


def _launch_cost(record: Recorder, backend: str, is_small: bool) -> None:
    """Host time of an asynchronous launch, and of one that is waited for."""
    x, y = _pair(64, backend)
    count = 20 if is_small else 1000
    apart, waited = [], []
    for _ in range(3):
        copy_kernel(x, y, 64, BLOCK=64)
        start = time.perf_counter()
        for _ in range(count):
            copy_kernel(x, y, 64, BLOCK=64, _sync=False)
        apart.append((time.perf_counter() - start) / count)
        eas.synchronize()
        start = time.perf_counter()
        for _ in range(count // 10):
            copy_kernel(x, y, 64, BLOCK=64)
        waited.append((time.perf_counter() - start) / (count // 10))
    record.fact("launch.asynchronous", round(1e6 * min(apart), 2), "us")
    record.fact("launch.waited_for", round(1e6 * min(waited), 2), "us")


def _bandwidth(record: Recorder, backend: str, is_small: bool) -> None:
    """Bytes read and written per second by a copy, from caches to memory."""
    best = 0.0
    for log in (12, 14) if is_small else range(14, 27, 2):
        n = 1 << log
        x, y = _pair(n, backend)
        seconds = device_seconds_of(partial(copy_kernel, x, y, n, BLOCK=1024))
        assert np.array_equal(x.numpy(), y.numpy()), f"a copy of {n} elements differs"
        rate = 8 * n / seconds / 1e9
        best = max(best, rate) if log >= 24 or is_small else best
        record.point("copy bandwidth (GB/s) by bytes", backend, 8 * n, rate)
    record.fact("bandwidth", round(best, 1), "GB/s")


def _shapes(record: Recorder, backend: str, is_small: bool) -> None:
    """Time of the same copy by threads of a threadgroup and elements of a thread."""
    n = 1 << (14 if is_small else 24)
    x, y = _pair(n, backend)
    times: dict[tuple[int, int], float] = {}
    for threads in (64, 256) if is_small else THREADS:
        for elements in (1, 4) if is_small else ELEMENTS:
            seconds = device_seconds_of(partial(copy_kernel, x, y, n, BLOCK=threads * elements, num_warps=threads // 32))
            times[threads, elements] = seconds
            record.point("copy (GB/s) by threads of a threadgroup", f"{elements} per thread", threads, 8 * n / seconds / 1e9)
    (threads, elements), best = min(times.items(), key=lambda item: item[1])
    usual = times[256, 4]
    record.fact("shapes.best", f"{threads} threads of {elements} elements")
    record.fact("shapes.gain_over_256_threads_of_4", round(usual / best - 1, 3))
    by_elements = {e: statistics.median(s for (_, k), s in times.items() if k == e) for _, e in times}
    if usual / best > 1.1 and not is_software(backend):  # less is noise: what is chosen today stays
        record.fact("usual_threads", threads)
        record.fact("elements_per_thread", min(by_elements, key=lambda e: by_elements[e]))
