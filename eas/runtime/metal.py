"""The Apple GPU backend; this version knows only what a machine is missing for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from eas.runtime import Executable, Grid, Runtime, require

EXTENSION = "eas._metal"


class MetalRuntime(Runtime):
    """Will run Metal kernels on the GPU of a Mac."""

    name = "mps"
    used_hints = frozenset({"num_warps"})

    def why_unavailable(self) -> str | None:
        platform: str = sys.platform  # mypy takes the rest for dead code when it sees sys.platform
        if platform != "darwin":
            return f"Metal needs macOS, this is {platform}"
        try:
            import_module(EXTENSION)
        except (
            ImportError,
            OSError,
        ) as error:  # OSError: it is there, but its libraries do not load
            return f"{EXTENSION} cannot be imported ({error}); run tools/build_metal_ext.py"
        return "the native Metal runtime is not part of this version yet"

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True
    ) -> None:
        require(self)
