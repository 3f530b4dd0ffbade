"""Metal text of our own on a backend: compiled, and run on arrays, without anything of the compiler in between."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eas.base import config, dtypes
from eas.base.errors import EasError
from eas.base.types import Space, Type
from eas.codegen.msl.generate import MetalCode
from eas.ir import Arg, IRModule, Region, Value
from eas.metal_sim import Library
from eas.runtime import get_runtime, require
from eas.runtime.metal import MetalRuntime
from eas.schedule.gpu.target import NEEDED_MACOS, MetalTarget

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
LANGUAGES = ("3.1", "3.2", "4.0")


@dataclass(frozen=True, slots=True)
class RawKernel:
    """What a Metal runtime runs: a text that is the same on every GPU."""

    name: str
    module: IRModule
    metal: MetalCode

    def metal_on(self, target: MetalTarget | None) -> MetalCode:
        """The text."""
        return self.metal


def is_software(backend: str) -> bool:
    """Whether the Metal behind a backend is ours, so that its times say nothing of a GPU."""
    return backend == "sim" or config.metal() == "software"


def why_no_language(language: str, backend: str) -> str | None:
    """Why this machine has no such language level, or None."""
    if is_software(backend):
        return None
    major = int(platform.mac_ver()[0].split(".")[0] or 0)
    needed = NEEDED_MACOS.get(language, 14)  # older levels are still there
    return None if major >= needed else f"Metal {language} needs macOS {needed}, this is {major}"


def _metal() -> MetalRuntime:
    runtime = require(get_runtime("mps"))
    assert isinstance(runtime, MetalRuntime)
    return runtime


class Said(NamedTuple):
    """What a compiler said of a text, and whether it took it."""

    is_taken: bool
    text: str


def compiled(backend: str, source: str, kernel: str = "", language: str = "3.1", math_mode: str = "safe") -> Said:
    """Compile a text."""
    if backend == "sim":
        try:
            library = Library(source, language=language, math_mode=math_mode)
            for name in library.kernel_names:
                library.kernel(name)
        except EasError as error:
            return Said(False, error.message)
        return Said(True, "")
    metal = _metal().extension()
    try:
        return Said(True, metal.compile(source, kernel, language=language, math_mode=math_mode).warnings)
    except metal.Error as error:
        return Said(False, str(error.args[1]))


def run(backend: str, source: str, arrays: Sequence[np.ndarray], groups: int, threads: int, *, language: str = "3.1", math_mode: str = "safe") -> None:
    """Run the kernel `k` of a text on arrays, which are bound in their order and changed in place."""
    names = [f"buffer{n}" for n in range(len(arrays))]
    args = tuple(Arg(name, Value(Type(dtypes.u8, (), Space.DEVICE))) for name in names)
    bound = tuple((name, n, True) for n, name in enumerate(names))
    code = MetalCode(source, "k", threads, bound, (), None, 0, None, 0, (), math_mode, language)
    kernel = RawKernel("k", IRModule("k", args, Region((), ())), code)
    get_runtime(backend).run(kernel, [a.reshape(-1).view(np.uint8) for a in arrays], (groups, 1, 1))
