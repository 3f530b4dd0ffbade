"""Runs a Python file and remembers how it launches a kernel: `file.py:kernel`."""

from __future__ import annotations

import ast
import contextlib
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eas.base import config, dtypes
from eas.base.dtypes import DType
from eas.base.errors import EasError
from eas.base.types import Type
from eas.kernel import Kernel
from eas.launch.function import OPTIONS
from eas.tensor import zeros


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

    def named(self) -> dict[str, Any]:
        """All arguments and options by their names."""
        return {**dict(zip(self.kernel._names, self.args, strict=False)), **self.kwargs}


def first_launch(place: str, given: Sequence[str] = ()) -> Launched:
    """Run the file of `file.py:kernel` as a script, and give the first launch of that kernel; without a name, of any.

    A kernel that the file only defines is launched with arguments `given` as texts, such as `x=f32[1000]` and `N=1000`.
    """
    path, name = _split(place)
    seen: list[Launched] = []
    made: list[Kernel] = []
    with _recording(seen, made), _as_script(path), contextlib.redirect_stdout(sys.stderr):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                print(f"eas: {path} ended with {end.code}", file=sys.stderr)
    found = next((launch for launch in seen if not name or launch.kernel.__name__ == name), None)
    if found is not None and not given:
        return found
    defined = {kernel.__name__: kernel for kernel in made if kernel.fn.__code__.co_filename == str(path)}
    kernel = found.kernel if found is not None else defined.get(name)
    if kernel is None:
        raise _unknown(path, name, [launch.kernel.__name__ for launch in seen], list(defined))
    if not given:
        example = " ".join(f"{n}={v}" for n, v in zip(kernel._names, _examples(kernel), strict=True))
        raise EasError(f"{path} defines the kernel {name}, and does not launch it", hint=f"give its arguments, as in {path}:{name} {example}")
    return Launched(kernel, (), {**(found.named() if found is not None else {}), **dict(map(_argument, given))})


def _unknown(path: Path, name: str, launched: list[str], defined: list[str]) -> EasError:
    known = list(dict.fromkeys([*launched, *defined]))
    near = config.closest(name, known)
    hint = f"did you mean {path}:{near}?" if near else f"it has {', '.join(known)}" if known else "let the file launch it, for example under `if __name__ == '__main__':`"
    return EasError(f"{path} has no kernel {name}".rstrip(), hint=hint)


def _examples(kernel: Kernel) -> Iterator[str]:
    """An argument of each parameter, for a hint: what its annotation and name let one expect."""
    for name, is_meta in zip(kernel._names, kernel._is_meta, strict=True):
        said = kernel._declared.get(name)
        is_number = name.isupper() or said in (int, bool) or name in ("n", "m", "k")
        yield "256" if is_meta else "1000" if is_number else "0.5" if said is float or isinstance(said, DType) else f"{said.dtype if isinstance(said, Type) else 'f32'}[1000]"


def _argument(text: str) -> tuple[str, Any]:
    """The name and value of `x=f32[8, 1000]`, `N=1000`, `alpha=0.5`, `dtype=f16` or `_grid=4`."""
    name, _, value = text.partition("=")
    dtype, bracket, extents = value.partition("[")
    try:
        if dtype.isidentifier() and dtype not in ("True", "False", "None"):
            known = dtypes.parse(dtype)
            return name, zeros(ast.literal_eval(f"({extents.rstrip(']')},)"), dtype=known) if bracket else known
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise EasError(f"{text!r} is no argument of a kernel", hint="write arrays as x=f32[8,1000], numbers as N=1000") from None


def _split(place: str) -> tuple[Path, str]:
    text, colon, name = place.rpartition(":")
    if not colon or (os.sep in name or name.endswith(".py")):
        text, name = place, ""
    path = Path(text)
    if not path.is_file():
        raise EasError(f"there is no file {text}", hint="write it as file.py:kernel")
    return path, name


@contextlib.contextmanager
def _recording(seen: list[Launched], made: list[Kernel]) -> Iterator[None]:
    """Note launches and kernels that are made meanwhile."""
    plain, plain_init = Kernel.__call__, Kernel.__init__

    def init(self: Kernel, *args: Any, **kwargs: Any) -> None:
        plain_init(self, *args, **kwargs)
        made.append(self)

    def call(self: Kernel, *args: Any, **kwargs: Any) -> None:
        seen.append(Launched(self, args, dict(kwargs)))
        return plain(self, *args, **kwargs)

    Kernel.__call__, Kernel.__init__ = call, init  # type: ignore[method-assign]
    try:
        yield
    finally:
        Kernel.__call__, Kernel.__init__ = plain, plain_init  # type: ignore[method-assign]


@contextlib.contextmanager
def _as_script(path: Path) -> Iterator[None]:
    """What a script sees: its own folder to import from, and its name as the only argument."""
    argv, folders = sys.argv, list(sys.path)
    sys.argv, sys.path = [str(path)], [str(path.resolve().parent), *folders]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, folders
