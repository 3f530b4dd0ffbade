"""Stage "lib": every function of eas.lib on small arrays, judged by the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import eas
from eas import lib
from eas.verify import switching
from eas.verify.events import Recorder

Arrays = Callable[[np.random.Generator, Any], tuple[tuple[Any, ...], dict[str, Any]]]
TOLERANCE = {"float32": 2e-5, "float16": 4e-3}


def _normal(*shapes: tuple[int, ...], **options: Any) -> Arrays:
    """Normal numbers of those shapes, then the options."""
    return lambda rng, dtype: (tuple(rng.standard_normal(s).astype(dtype) for s in shapes), options)


def _cross_entropy(rng: np.random.Generator, dtype: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (rng.standard_normal((5, 37)).astype(dtype), rng.integers(0, 37, 5)), {}


def _histogram(rng: np.random.Generator, dtype: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (rng.integers(0, 20, 500).astype(np.int32), 16), {}


def _int8(rng: np.random.Generator, dtype: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    weight = rng.integers(-127, 128, (24, 40)).astype(np.int8)
    return (weight, rng.uniform(0.5, 1.5, 24).astype(np.float32), rng.standard_normal(40).astype(np.float32)), {}


CASES: dict[str, tuple[Arrays, ...]] = {
    "add": (_normal((3, 50), (3, 50)),),
    "argmax": (_normal((5, 300)),),
    "attention": (_normal((1, 2, 20, 16), (1, 2, 20, 16), (1, 2, 20, 16), causal=True), _normal((1, 4, 5, 32), (1, 2, 40, 32), (1, 2, 40, 32))),
    "attention_qkv": (_normal((1, 12, 3, 2, 16), causal=True),),
    "bias_gelu": (_normal((6, 70), (70,)),),
    "conv2d": (_normal((1, 3, 9, 11), (4, 3, 3, 3), (4,), padding=1),),
    "cross_entropy": (_cross_entropy,),
    "cumsum": (_normal((3, 130)),),
    "dropout": (_normal((200,), p=0.25, seed=7),),
    "gelu": (_normal((300,)), _normal((300,), approximate="tanh")),
    "histogram": (_histogram,),
    "int8_matvec": (_int8,),
    "layer_norm": (_normal((5, 100), (100,), (100,)),),
    "linear": (_normal((9, 40), (24, 40), (24,)),),
    "log_softmax": (_normal((4, 130)),),
    "matmul": (_normal((17, 33), (33, 21)), _normal((2, 16, 32), (2, 32, 16))),
    "quantise_int8": (_normal((8, 60)),),
    "rms_norm": (_normal((5, 100), (100,)),),
    "rope": (_normal((1, 2, 7, 16)),),
    "silu": (_normal((300,)),),
    "softmax": (_normal((5, 37)), _normal((2, 3000))),
    "sum": (_normal((1000,)),),
    "swiglu": (_normal((5, 60), (5, 60)),),
    "topk": (lambda rng, dtype: ((rng.standard_normal((3, 100)).astype(dtype), 8), {}),),
    "transpose": (_normal((2, 19, 35)),),
}
ONE_DTYPE = frozenset({"histogram", "int8_matvec", "quantise_int8"})


def run(record: Recorder, backend: str) -> None:
    """Each function, form and dtype is a check."""
    dtypes = ["float32"] if record.is_short else ["float32", "float16"]
    todo = [(name, make, d) for name, makes in CASES.items() for make in makes for d in dtypes if d == "float32" or name not in ONE_DTYPE]
    todo = todo[:: 13 if record.is_short else 1]
    for n, (name, make, dtype) in enumerate(todo):
        if record.seconds_left < 0:
            record.skipped(f"{len(todo) - n} calls", "no time left; --full makes all of them")
            return
        with record.checking(f"{name} {dtype}"):
            compare(name, make, dtype, backend)
        record.progress(n + 1, len(todo))


def compare(name: str, make: Arrays, dtype: str, backend: str) -> None:
    """Raise unless a function gives what it gives on the interpreter: of arrays, and of tensors of the backend's device."""
    args, options = make(np.random.default_rng(3), dtype)
    with switching.backend("interp"):
        want = _results(getattr(lib, name)(*map(_copied, args), **options))
    with switching.backend(backend):
        _judge(_results(getattr(lib, name)(*map(_copied, args), **options)), want, dtype)
        device = "cpu" if backend == "cpu" else "mps"
        tensors = [eas.tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in args]
        _judge(_results(getattr(lib, name)(*tensors, **options)), want, dtype)


def _copied(given: Any) -> Any:
    return given.copy() if isinstance(given, np.ndarray) else given


def _results(made: Any) -> list[np.ndarray]:
    eas.synchronize()
    return [np.asarray(x) for x in (made if isinstance(made, tuple) else (made,))]


def _judge(got: list[np.ndarray], want: list[np.ndarray], dtype: str) -> None:
    tolerance = TOLERANCE[dtype]
    for a, b in zip(got, want, strict=True):
        scale = float(np.abs(b).max(initial=1.0))
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance * scale)
