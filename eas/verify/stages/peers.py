"""Stage "benchmarks": a few rows of the library beside torch and MLX, where they are installed; each checked before it is timed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import eas
from eas import lib
from eas.verify.events import Recorder
from eas.verify.raw_metal import is_software
from eas.verify.stages.speed import seconds_of

Call = Callable[[], Any]
ROWS = ("add", "softmax", "sum", "layer_norm", "gelu", "matmul f32", "matmul f16", "attention f16", "cumsum")


def run(record: Recorder, backend: str) -> None:
    """Each row: seconds of eas and of the peers, as times and as points of the plot."""
    is_small = record.is_short or (backend == "mps" and is_software(backend))
    peers = {"torch": _torch(backend), "mlx": _mlx(backend)} if not record.is_short else {}
    for name, peer in peers.items():
        if isinstance(peer, str):
            record.skipped(name, peer)
    rows = ROWS[:2] if is_small else ROWS
    for n, row in enumerate(rows):
        if record.seconds_left < 0:
            record.skipped(f"{len(rows) - n} rows", "no time left; --full runs all of them")
            return
        with record.checking(row):
            _row(record, row, backend, {k: p for k, p in peers.items() if not isinstance(p, str)}, is_small)
        record.progress(n + 1, len(rows))


def _inputs(row: str, is_small: bool) -> tuple[np.ndarray, ...]:
    """The arrays of a row."""
    rng = np.random.default_rng(0)
    dtype = np.float16 if row.endswith("f16") else np.float32
    if row.startswith("matmul"):
        n = 64 if is_small else 2048
        return tuple(rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
    if row.startswith("attention"):
        shape = (1, 2, 32, 32) if is_small else (1, 16, 2048, 64)
        return tuple(rng.standard_normal(shape).astype(dtype) for _ in range(3))
    rows, columns = (32, 256) if is_small else (8192, 2048)
    count = 2 if row == "add" else 1
    return tuple(rng.standard_normal((rows, columns)).astype(dtype) for _ in range(count))


def _row(record: Recorder, row: str, backend: str, peers: dict[str, Callable[[str, tuple[np.ndarray, ...]], tuple[Call, Callable[[Any], np.ndarray]]]], is_small: bool) -> None:
    arrays = _inputs(row, is_small)
    device = "mps" if backend == "mps" else "cpu"
    tensors = [eas.tensor(a, device=device) for a in arrays]
    ours = partial(getattr(lib, row.split()[0]), *tensors)
    result = np.asarray(ours(), np.float64)
    record.point("milliseconds by row", "eas", row, 1e3 * seconds_of(ours))
    for name, peer in peers.items():
        call, fetch = peer(row, arrays)
        theirs = fetch(call()).astype(np.float64)
        scale = float(np.abs(theirs).max(initial=1.0))
        limit = 2e-2 if row.endswith("f16") or row == "sum" else 1e-3
        np.testing.assert_allclose(result, theirs, rtol=limit, atol=limit * scale, err_msg=f"eas and {name} differ")
        record.point("milliseconds by row", name, row, 1e3 * seconds_of(call))


def _torch(backend: str) -> Any:
    """What makes (call, to NumPy) of a row, or why there is none."""
    if importlib.util.find_spec("torch") is None:
        return "not installed"
    torch = importlib.import_module("torch")
    if backend == "mps" and not torch.backends.mps.is_available():
        return "this torch has no MPS"
    device = "mps" if backend == "mps" else "cpu"
    f = torch.nn.functional
    table = {
        "add": torch.add, "sum": torch.sum, "softmax": lambda x: torch.softmax(x, -1), "layer_norm": lambda x: f.layer_norm(x, x.shape[-1:]),
        "gelu": f.gelu, "matmul": torch.matmul, "attention": f.scaled_dot_product_attention, "cumsum": lambda x: torch.cumsum(x, -1),
    }  # fmt: skip

    def peer(row: str, arrays: tuple[np.ndarray, ...]) -> tuple[Call, Callable[[Any], np.ndarray]]:
        tensors = [torch.from_numpy(a).to(device) for a in arrays]
        function = table[row.split()[0]]

        def call() -> Any:
            made = function(*tensors)
            if device == "mps":
                torch.mps.synchronize()
            return made

        return call, lambda made: np.asarray(made.cpu())

    return peer


def _mlx(backend: str) -> Any:
    """The same of MLX, which has one device."""
    if backend != "mps" or is_software(backend):
        return "MLX is compared on the GPU of a Mac"
    if importlib.util.find_spec("mlx") is None:
        return "not installed; pip install mlx"
    mx = importlib.import_module("mlx.core")
    nn = importlib.import_module("mlx.nn")
    table = {
        "add": mx.add, "sum": mx.sum, "softmax": lambda x: mx.softmax(x, axis=-1), "layer_norm": lambda x: mx.fast.layer_norm(x, None, None, 1e-5),
        "gelu": nn.gelu, "matmul": mx.matmul, "attention": lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5),
        "cumsum": lambda x: mx.cumsum(x, axis=-1),
    }  # fmt: skip

    def peer(row: str, arrays: tuple[np.ndarray, ...]) -> tuple[Call, Callable[[Any], np.ndarray]]:
        tensors = [mx.array(a) for a in arrays]
        function = table[row.split()[0]]

        def call() -> Any:
            made = function(*tensors)
            mx.eval(made)
            return made

        return call, lambda made: np.asarray(made, np.float32)

    return peer
