"""Runs the programs of a grid on all cores: the Python side of the pool in `eas/native/pool_jobs.c`."""

from __future__ import annotations

import ctypes
import errno
import os
import threading

from eas.runtime.native import jit
from eas.runtime.native.host_cpu import num_threads
from eas.runtime.native.native_code import native_code

__all__ = ["MAX_THREADS", "NativePool", "num_threads", "pool"]

MAX_QUEUE_THREADS = 8  # launches that are under way at once; each of them uses the whole pool
MAX_THREADS = 1024

_i64, _pointer = ctypes.c_int64, ctypes.c_void_p


class NativePool:
    """The threads of this process that run kernels; they start with the first grid that needs them.

    Python threads may call `run` at the same time: each call is a job, and idle workers help any
    job. In a child after fork the pool is empty and starts again.
    """

    def __init__(self) -> None:
        code = native_code()
        self.run_address = code.address("eas_pool_run")
        """`i32 (fn, args, n, chunk, n_threads, scratch_nbytes, rate, stop, steady)`, for native callers."""
        types = (_pointer, _pointer, _i64, _i64, _i64, _i64, _pointer, _pointer, _i64)
        # Called with the GIL, which it releases: ctypes then raises what a signal handler raised meanwhile.
        self._run = ctypes.PYFUNCTYPE(ctypes.c_int32, *types)(code.address("eas_pool_run_from_python"))
        self._main_thread = ctypes.CFUNCTYPE(None, _i64)(code.address("eas_pool_main_thread"))
        self._main_thread(threading.main_thread().ident or 0)
        reset = ctypes.CFUNCTYPE(None)(code.address("eas_pool_reset"))
        reset()
        self._share = ctypes.CFUNCTYPE(None, _pointer, _pointer)(code.address("eas_pool_share"))
        os.register_at_fork(after_in_child=reset)
        os.register_at_fork(after_in_child=lambda: self._main_thread(threading.get_ident()))

    def share(self, parallel: int | None, max_threads: int | None) -> None:
        """Run on the threads of an OpenMP runtime from now on: its GOMP_parallel and omp_get_max_threads.

        Launches with another number of threads than OpenMP has, and those after fork, use our own.
        """
        self._share(parallel, max_threads)

    def run(
        self,
        fn: int,
        args: int,
        n: int,
        *,
        chunk: int = 0,
        n_threads: int = 0,
        scratch_nbytes: int = 0,
        rate: int = 0,
        stop: int = 0,
        steady: int = 0,
    ) -> None:
        """Call `fn(args, begin, end, scratch)` until [0, n) is covered, each program exactly once.

        The caller's thread works too, with the GIL released. `chunk` programs are taken at a time;
        0 lets the pool choose by the time that programs took before, kept in the 8 bytes at `rate`
        (0 at first), and run short grids on the caller's thread alone. `n_threads` 0 is
        `EAS_NUM_THREADS`. Scratch is aligned to 64 bytes and belongs to one thread; its first 64
        bytes are zero when a thread meets the launch, and then left alone.

        Between two runs of programs, of at most some 10 ms if no program takes longer, the launch ends
        early when a signal handler raises (on the main thread), or another thread puts a 1 into the
        4 bytes at `stop`. `steady` is 0 unless the work of a program is bounded.
        """
        threads = min(n_threads or num_threads(), MAX_THREADS)
        status = self._run(fn, args, n, chunk, threads, scratch_nbytes, rate, stop, steady)
        if status not in (0, errno.EINTR):
            raise MemoryError(f"no {scratch_nbytes} bytes of scratch for a kernel")


_pools: list[NativePool] = []


def pool() -> NativePool:
    """The one pool of this process."""
    if not _pools:
        with jit.lock:
            if not _pools:
                _pools.append(NativePool())
    return _pools[0]
