"""Runs a Python file and remembers how it launches a kernel: `file.py:kernel`."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eas.base import config
from eas.base.errors import EasError
from eas.kernel import Kernel
from eas.launch.function import OPTIONS


@dataclass(frozen=True)
class Launched:
    """The first launch of a kernel, as it was written."""

    kernel: Kernel
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments without launch options."""
        return self.args, {name: value for name, value in self.kwargs.items() if name not in OPTIONS}


def first_launch(place: str) -> Launched:
    """Run the file of `file.py:kernel` as a script, and give the first launch of that kernel; without a name, of any."""
    path, name = _split(place)
    seen: list[Launched] = []
    with _recording(seen), _as_script(path), contextlib.redirect_stdout(sys.stderr):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                print(f"eas: {path} ended with {end.code}", file=sys.stderr)
    found = next((launch for launch in seen if not name or launch.kernel.__name__ == name), None)
    if found is None:
        known = list(dict.fromkeys(launch.kernel.__name__ for launch in seen))
        near = config.closest(name, known)
        hint = f"did you mean {path}:{near}?" if near else f"it launches {', '.join(known)}" if known else "let the file launch it, for example under `if __name__ == '__main__':`"
        raise EasError(f"{path} launches no kernel {name}".rstrip(), hint=hint)
    return found


def _split(place: str) -> tuple[Path, str]:
    text, colon, name = place.rpartition(":")
    if not colon or (os.sep in name or name.endswith(".py")):
        text, name = place, ""
    path = Path(text)
    if not path.is_file():
        raise EasError(f"there is no file {text}", hint="write it as file.py:kernel")
    return path, name


@contextlib.contextmanager
def _recording(seen: list[Launched]) -> Iterator[None]:
    plain = Kernel.__call__

    def call(self: Kernel, *args: Any, **kwargs: Any) -> None:
        seen.append(Launched(self, args, dict(kwargs)))
        return plain(self, *args, **kwargs)

    Kernel.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        Kernel.__call__ = plain  # type: ignore[method-assign]


@contextlib.contextmanager
def _as_script(path: Path) -> Iterator[None]:
    """What a script sees: its own folder to import from, and its name as the only argument."""
    argv, folders = sys.argv, list(sys.path)
    sys.argv, sys.path = [str(path)], [str(path.resolve().parent), *folders]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, folders
