"""OpenCL on the CPU through PoCL: `peer.cl` on buffers of its own, which it aligns."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from benchmarks.registry import Call

SOURCE = Path(__file__).with_name("peer.cl")


def why_unavailable() -> str | None:
    try:
        queue()
    except (cl.Error, LookupError) as error:
        return f"no OpenCL device: {error}"
    return None


@cache
def queue() -> cl.CommandQueue:
    platforms = [p for p in cl.get_platforms() if "Portable Computing" in p.name]
    if not platforms:
        raise LookupError("PoCL is not installed: pip install pocl-binary-distribution")
    return cl.CommandQueue(cl.Context(platforms[0].get_devices()[:1]))


@cache
def program() -> cl.Program:
    return cl.Program(queue().context, SOURCE.read_text()).build("-cl-fast-relaxed-math")


class Answer:
    """A buffer that is copied when somebody looks at it; keeps the inputs alive, which a kernel does not."""

    def __init__(self, buffer: cl.Buffer, like: np.ndarray, inputs: list[Any]) -> None:
        self.buffer, self.like, self.inputs = buffer, like, inputs

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.empty_like(self.like)
        cl.enqueue_copy(queue(), values, self.buffer).wait()
        return values.astype(dtype or values.dtype)


def over_rows(name: str, x: np.ndarray, *rest: Any) -> Call:
    """A call with one work-item per row of x."""
    q, flags = queue(), cl.mem_flags
    arrays = [cl.Buffer(q.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a) if isinstance(a, np.ndarray) else a for a in (x, *rest)]
    out = cl.Buffer(q.context, flags.READ_WRITE, x.nbytes)
    kernel, answer = cl.Kernel(program(), name), Answer(out, x, arrays)
    kernel.set_args(arrays[0], out, np.int32(x.shape[1]), *arrays[1:])

    def call() -> Answer:
        cl.enqueue_nd_range_kernel(q, kernel, (x.shape[0],), (16,)).wait()
        return answer

    return call
