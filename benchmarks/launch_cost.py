"""What launches cost the host: one by one, and as a captured graph, and each kind of call on the CPU; on the CPU, and on the GPU without its work.

    python -m benchmarks --launch-cost
    EAS_METAL=software EAS_BACKEND=mps python -m benchmarks --launch-cost

On the software Metal dispatches are forgotten while the clock runs (`hooks.idle`), and once more not, so that both numbers are there.
"""

from __future__ import annotations

import contextlib
import time
import timeit
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import eas
import eas.lib
from eas.lib.elementwise import add_kernel
from eas.runtime import get_runtime

N, LENGTH = 50, 256


@contextlib.contextmanager
def without_work(hooks: Any, is_idle: bool) -> Iterator[None]:
    """The GPU of the software Metal stands still, and with `is_idle` its encoders forget dispatches."""
    if hooks is None:
        yield
        return
    hooks.hold(True)
    hooks.idle(is_idle)
    yield
    hooks.idle(False)
    hooks.hold(False)
    eas.synchronize()


def fastest(actions: dict[str, Callable[[], None]], hooks: Any, is_idle: bool, rounds: int = 300) -> dict[str, float]:
    """Seconds of the fastest of many runs of each action, in turn."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            with without_work(hooks, is_idle):
                action()
                start = time.perf_counter()
                action()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def calls() -> dict[str, Callable[[], object]]:
    """One launch of each kind on arrays of the CPU."""
    x, y, out = (np.ones(LENGTH, np.float32) for _ in range(3))
    a, b, c = (eas.tensor(np.ones(LENGTH, np.float32)) for _ in range(3))
    rows, soft = x.reshape(4, -1), out.reshape(4, -1)
    found: dict[str, Callable[[], object]] = {
        "k(...)": lambda: add_kernel(x, y, out, LENGTH, BLOCK=LENGTH),
        "k(..., N=)": lambda: add_kernel(x, y, out, N=LENGTH, BLOCK=LENGTH),
        "k[grid](...)": lambda: add_kernel[1](x, y, out, LENGTH, BLOCK=LENGTH),
        "k(eas.Tensor)": lambda: add_kernel(a, b, c, LENGTH, BLOCK=LENGTH),
        "lib.add(out=)": lambda: eas.lib.add(x, y, out=out),
        "lib.softmax(out=)": lambda: eas.lib.softmax(rows, out=soft),
        "lib.add(eas.Tensor, out=)": lambda: eas.lib.add(a, b, out=c),
        "np.add(out=)": lambda: np.add(x, y, out=out),
    }
    if find_spec("torch"):
        torch = import_module("torch")
        t, u, v = (torch.ones(LENGTH) for _ in range(3))
        found["k(torch.Tensor)"] = lambda: add_kernel(t, u, v, LENGTH, BLOCK=LENGTH)
    return found


def show_calls(times: int = 200, rounds: int = 100) -> None:
    """The fastest of many rounds of each kind of call, in turn."""
    kinds = calls()
    best = dict.fromkeys(kinds, float("inf"))
    for _ in range(rounds):
        for name, call in kinds.items():
            best[name] = min(best[name], timeit.timeit(call, number=times) / times)
    for name, seconds in best.items():
        print(f"{name:28} {seconds * 1e6:6.2f} us")


def main() -> int:
    runtime = get_runtime()
    is_gpu = runtime.name == "mps"
    hooks = getattr(runtime.extension(), "hooks", None) if is_gpu else None  # type: ignore[attr-defined]
    x, y, out = (eas.tensor(np.ones(LENGTH, np.float32), device="mps" if is_gpu else "cpu") for _ in range(3))
    arrays = (x, y, out) if is_gpu else tuple(t.numpy() for t in (x, y, out))
    options = {"_sync": False} if is_gpu else {}

    def launches() -> None:
        for _ in range(N):
            add_kernel(*arrays, LENGTH, BLOCK=LENGTH, **options)

    for _ in range(3):
        launches()
    eas.synchronize()
    with eas.capture() as graph:
        launches()
    graph.replay()
    assert np.array_equal(out.numpy(), np.full(LENGTH, 2, np.float32))
    for is_idle in (True, False) if hooks is not None else (False,):
        best = fastest({"launches": launches, "replay": lambda: graph.replay(**options)}, hooks, is_idle)
        one, all_of_them = best["launches"] / N, best["replay"]
        what = f"{runtime.name}{', dispatches forgotten' if is_idle else ''}"
        print(f"{what:28} one launch {one * 1e6:6.2f} us   graph of {N} {all_of_them * 1e6:7.2f} us   {N} launches / replay = {best['launches'] / all_of_them:5.1f}")
    if not is_gpu:
        show_calls()
    return 0
