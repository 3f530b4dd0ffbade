"""Layer B: kernels on torch tensors of mps, dispatched by `torch.mps.compile_shader` on torch's own stream.

They are ordered with all that torch does, and nothing is waited for. Rules of its arguments: argument i is bound at
buffer i; a tensor at its storage offset; a list of ints as 64-bit words; the grid counts threads.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from eas.base.errors import KernelWarning, LaunchError
from eas.base.locks import new_lock
from eas.runtime import Executable, Grid, Lane, Runtime, add_runtime, get_runtime
from eas.runtime.gpu.launch import MetalCode, MetalExecutable, scalar_struct
from eas.runtime.gpu.log import MetalLog
from eas.runtime.grid import check_programs
from eas.schedule.gpu.target import MetalTarget

MAX_BYTES = 4096  # of a list of numbers: Metal takes no more by value
MAX_THREADS = (1 << 32) - 1  # of a grid, along one axis
FAST_MATH = "PYTORCH_MPS_FAST_MATH"


def why_unavailable() -> str | None:
    """What keeps layer B from being used, as the end of a sentence, or None."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "torch is not imported"
    if not torch.backends.mps.is_available():
        return "this torch has no MPS"
    if not hasattr(torch.mps, "compile_shader"):
        return f"torch {torch.__version__} has no torch.mps.compile_shader, which 2.7 and newer have"
    if os.environ.get(FAST_MATH, "0") not in ("", "0"):
        return f"{FAST_MATH} makes torch compile all kernels with fast math"
    return None


class TorchMpsRuntime(Runtime):
    """Runs generated Metal text on torch's stream."""

    name = "torch-mps"
    used_hints = frozenset({"num_warps"})

    def __init__(self) -> None:
        self._lock = new_lock()
        self._kernels: dict[str, Any] = {}
        self._pending: list[tuple[str, MetalLog, Any]] = []

    def why_unavailable(self) -> str | None:
        return why_unavailable()

    @functools.cached_property
    def target(self) -> MetalTarget | None:
        """What text is made for: the GPU as our own runtime knows it, if that is built."""
        from eas.runtime.metal import MetalRuntime

        ours = get_runtime("mps")
        return ours.target if isinstance(ours, MetalRuntime) and ours.is_available() else None

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None
    ) -> None:
        """Results are there for whoever asks torch; only a kernel with a log is waited for, if `sync`. Torch has one stream."""
        check_programs(executable.name, grid)
        metal = cast(MetalExecutable, executable)
        code, torch = metal.metal_on(self.target), sys.modules["torch"]
        kernel = self._kernel(executable.name, code)
        given: dict[str, Any] = dict(zip((a.name for a in metal.module.args), args, strict=True))
        bound: dict[int, Any] = {index: _bound(torch, given[name]) for name, index, _ in code.buffers}
        if code.scalars_index is not None:
            bound[code.scalars_index] = _words(torch, scalar_struct(code, metal.module.args, given))
        if code.log_index is not None:
            log = MetalLog(code, math.prod(grid))
            bound[code.log_index] = torch.from_numpy(log.words.view(np.int32)).to("mps")
            self._pending.append((executable.name, log, bound[code.log_index]))
        threads = (grid[0] * code.threads, grid[1], grid[2])
        if max(threads) > MAX_THREADS:
            raise LaunchError(f"kernel {executable.name} has a grid of {threads} threads, more than {MAX_THREADS} along an axis", hint="give each program more work")
        kernel(*(bound[i] for i in range(len(bound))), threads=threads, group_size=(code.threads, 1, 1))
        if sync and code.log_index is not None:
            self._finish_logs()

    def synchronize(self) -> None:
        """Torch's stream has ended; raises what kernels asserted."""
        if self._kernels:
            self.wait()
            self._finish_logs()

    def wait(self) -> None:
        sys.modules["torch"].mps.synchronize()

    def forget(self) -> None:
        """Nothing was launched or compiled here."""
        self._kernels.clear()
        self._pending.clear()

    def _finish_logs(self) -> None:
        pending, self._pending = self._pending, []
        for name, log, words in pending:
            log.words = words.cpu().numpy().view(np.uint32)
            log.finish(name)

    def _kernel(self, name: str, code: MetalCode) -> Any:
        found = self._kernels.get(code.text)
        if found is not None:
            return found
        if code.math_mode == "fast":
            warnings.warn(f"kernel {name} has math_mode=\"fast\", and torch compiles it with safe math: its compile_shader has no such option; EAS_TORCH_LAYER=a compiles it as it says", KernelWarning, stacklevel=2)
        try:
            found = getattr(sys.modules["torch"].mps.compile_shader(code.text), code.name)
        except SyntaxError as error:
            raise LaunchError(f"torch cannot compile the Metal text of kernel {name}: {error}", hint="this text should compile: please report it with the text of to_msl()") from None
        most = found.max_threads_per_threadgroup
        if code.threads > most:
            raise LaunchError(f"kernel {name} needs {code.threads} threads per threadgroup, and its registers leave room for {most}", hint="use smaller blocks, or num_warps")
        with self._lock:
            self._kernels[code.text] = found
        return found


@functools.cache
def runtime() -> Runtime:
    """The one of this process; `eas.synchronize` knows it from now on."""
    return add_runtime("torch_mps", TorchMpsRuntime())


def _bound(torch: Any, memory: Any) -> Any:
    """The tensor; one without elements may have no buffer, and the kernel must have some."""
    tensor = memory.tensor
    return tensor if tensor.numel() else torch.empty(1, dtype=tensor.dtype, device=tensor.device)


def _words(torch: Any, struct: np.ndarray) -> Any:
    """The bytes of the scalars as a list of 64-bit words, or as a tensor where they are too many."""
    padded = np.zeros(-(-struct.nbytes // 8) * 8, np.uint8)
    padded[: struct.nbytes] = struct
    words = padded.view(np.int64)
    return words.tolist() if padded.nbytes <= MAX_BYTES else torch.from_numpy(words).to("mps")


