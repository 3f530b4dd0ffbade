"""The software Metal backend; this version knows only that it is not there yet."""

from __future__ import annotations

from collections.abc import Sequence

from eas.runtime import Executable, Grid, Runtime, require


class SimRuntime(Runtime):
    """Will run the generated Metal text as C++ on any machine."""

    name = "sim"

    def why_unavailable(self) -> str | None:
        return "the software Metal is not part of this version yet"

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True
    ) -> None:
        require(self)
