"""Stage "validation": a part of the other stages again, in an environment that turns the validation layers on."""

from __future__ import annotations

import os

from eas.runtime import get_runtime
from eas.verify.events import Recorder
from eas.verify.stages import library, ops, streams

ONE_IN = 8


def run(record: Recorder, backend: str) -> None:
    """Some ops, some of the library, asynchronous launches: all right, and the layers have nothing to say."""
    record.fact("validation.layers", ", ".join(f"{k}={os.environ[k]}" for k in ("MTL_DEBUG_LAYER", "MTL_SHADER_VALIDATION", "EAS_SANITIZE") if k in os.environ))
    todo = ops.cases(backend)[:: 25 * ONE_IN if record.is_short else ONE_IN]
    for n, case in enumerate(todo):
        if record.seconds_left < 0:
            record.skipped(f"{len(todo) - n} cases", "no time left; --full runs all of them")
            break
        ops.check(record, case, backend)
        record.progress(n + 1, len(todo))
    for name in ("softmax",) if record.is_short else ("matmul", "softmax", "attention", "histogram", "cumsum", "conv2d"):
        with record.checking(f"lib.{name}"):
            library.compare(name, library.CASES[name][0], "float32", backend)
    with record.checking("asynchronous launches"):
        streams.dependencies(20 if record.is_short else 200)
    _fake_is_silent(record, backend)


def _fake_is_silent(record: Recorder, backend: str) -> None:
    """What the validation layer of the fake Metal has noted."""
    extension = getattr(get_runtime(backend), "extension", None)
    hooks = getattr(extension() if extension else None, "hooks", None)
    if hooks is not None:
        record.check("the fake Metal notes nothing", hooks.problem() is None, str(hooks.problem() or ""))
