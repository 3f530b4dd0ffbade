"""Stage "streams": asynchronous launches of several threads and streams give what the same launches give one by one."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import eas
from eas import mk
from eas.base.backends import runs_metal
from eas.lib.kernels import constexpr, kernel
from eas.verify.events import Recorder

SIZE, TENSORS, THREADS, STREAMS = 4096, 6, 4, 3
STREAM: Any = getattr(eas, "Stream", None)


@kernel
def mix_kernel(a, b, c, N, BLOCK: constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, (mk.load(a, i, i < N) * 3 + mk.load(b, i, i < N)) % 65521, i < N)


def run(record: Recorder, backend: str) -> None:
    """One thread with dependencies; several threads; streams; many launches in flight."""
    launches = 60 if record.is_short else 2500 if backend != "sim" else 300
    checks = (dependencies, _threads, _streams, _many_in_flight)
    for n, check in enumerate(checks):
        if check is _streams and STREAM is None:
            record.skipped("streams", "this version has no eas.Stream yet")
        else:
            with record.checking(check.__name__.strip("_").replace("_", " ")):
                check(launches)
        record.progress(n + 1, len(checks))


def _device() -> str:
    return "mps" if runs_metal(eas.runtime.get_runtime().name) else "cpu"


def _tensors(seed: int) -> tuple[list[Any], list[np.ndarray]]:
    """Random whole numbers, as tensors and as arrays."""
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 65521, SIZE).astype(np.int32) for _ in range(TENSORS)]
    return [eas.tensor(a.copy(), device=_device()) for a in arrays], arrays


def _apply(arrays: list[np.ndarray], a: int, b: int, c: int) -> None:
    arrays[c] = (arrays[a] * 3 + arrays[b]) % 65521


def _compare(tensors: list[Any], arrays: list[np.ndarray]) -> None:
    for n, (got, want) in enumerate(zip(tensors, arrays, strict=True)):
        np.testing.assert_array_equal(got.numpy(), want, err_msg=f"tensor {n}")


def dependencies(launches: int) -> None:
    tensors, arrays = _tensors(0)
    rng = np.random.default_rng(1)
    for _ in range(launches):
        a, b, c = (int(k) for k in rng.integers(0, TENSORS, 3))
        mix_kernel(tensors[a], tensors[b], tensors[c], SIZE, BLOCK=1024, _sync=False)
        _apply(arrays, a, b, c)
    eas.synchronize()
    _compare(tensors, arrays)


def _threads(launches: int) -> None:
    """Each thread has tensors of its own, and all read one that nobody writes."""
    shared = eas.tensor(np.arange(SIZE, dtype=np.int32), device=_device())
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            tensors, arrays = _tensors(seed)
            tensors[0], arrays[0] = shared, np.arange(SIZE, dtype=np.int32)
            rng = np.random.default_rng(seed)
            for _ in range(launches // THREADS):
                a, b, c = int(rng.integers(0, TENSORS)), int(rng.integers(0, TENSORS)), int(rng.integers(1, TENSORS))
                mix_kernel(tensors[a], tensors[b], tensors[c], SIZE, BLOCK=1024, _sync=False)
                _apply(arrays, a, b, c)
            eas.synchronize()
            _compare(tensors, arrays)
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(10, 10 + THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]


def _streams(launches: int) -> None:
    """The same launches in turn on several streams, each waiting for an event of another one now and then."""
    tensors, arrays = _tensors(2)
    streams = [STREAM() for _ in range(STREAMS)]
    rng = np.random.default_rng(3)
    for _ in range(launches):
        a, b, c = (int(k) for k in rng.integers(0, TENSORS, 3))
        stream = streams[int(rng.integers(STREAMS))]
        if rng.integers(4) == 0:
            stream.wait(streams[int(rng.integers(STREAMS))].record())
        with stream:
            mix_kernel(tensors[a], tensors[b], tensors[c], SIZE, BLOCK=1024, _sync=False)
        _apply(arrays, a, b, c)
    eas.synchronize()
    _compare(tensors, arrays)


def _many_in_flight(launches: int) -> None:
    """More launches than may be pending: the next one waits for room, nobody for ever."""
    x = eas.tensor(np.zeros(64, np.int32), device=_device())
    one = eas.tensor(np.ones(64, np.int32), device=_device())
    for _ in range(launches):
        mix_kernel(x, one, x, 64, BLOCK=64, _sync=False)
    eas.synchronize()
    want = 0
    for _ in range(launches):
        want = (want * 3 + 1) % 65521
    np.testing.assert_array_equal(x.numpy(), np.full(64, want, np.int32))
