"""`python -m eas sim file.metal`: lists the kernels of a Metal text, and runs one on arrays."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eas.base import dtypes, numerics
from eas.base.errors import ArgumentError, printable
from eas.metal_sim.library import Kernel, Library
from eas.metal_sim.toolchain import LANGUAGES, MATH_MODES

EXAMPLE = "eas sim add.metal --kernel add --arg a.npy --arg f32:1024 --arg 1024 --grid 4 --threads 256 --out 1=sum.npy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = f"example: {EXAMPLE}"
    parser.add_argument("file", type=Path, help="a Metal text")
    parser.add_argument("--kernel", help="the kernel to run; without it the kernels are listed")
    parser.add_argument("--arg", action="append", default=[], metavar="A", help="per buffer: x.npy, dtype:shape (zeros; f32:4x8), rand:dtype:shape, or a number")
    parser.add_argument("--grid", metavar="N[,N,N]", help="threadgroups")
    parser.add_argument("--grid-threads", metavar="N[,N,N]", help="threads in all; the last threadgroups may be smaller")
    parser.add_argument("--threads", default="1", metavar="N[,N,N]", help="threads of a threadgroup")
    parser.add_argument("--threadgroup-memory", action="append", default=[], metavar="I=NBYTES", help="size of a [[threadgroup(I)]] argument")
    parser.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE", help="a function constant")
    parser.add_argument("--out", action="append", default=[], metavar="I=x.npy", help="write argument I to a file afterwards; I alone prints it")
    parser.add_argument("--language", default="3.1", choices=LANGUAGES)
    parser.add_argument("--math", default="safe", choices=sorted(MATH_MODES))
    parser.add_argument("--include", action="append", default=[], metavar="DIR", help="where #include looks")
    parser.add_argument("--sanitize", action="store_true", help="look for races and wrong accesses")


def run(options: argparse.Namespace) -> int:
    """List the kernels of the file, or run one; 0, or an error of eas."""
    source = _source(options.file)
    library = Library(
        source, name=options.file.name, language=options.language, math_mode=options.math,
        function_constants=dict(_constant(c) for c in options.constant),
        sanitize=True if options.sanitize else None, include=[str(options.file.parent), *options.include],
    )  # fmt: skip
    if options.kernel is None:
        _list(library)
        return 0
    kernel = library.kernel(options.kernel)
    arguments = [_argument(text) for text in options.arg]
    memory: dict[int | str, int] = dict(_memory(text) for text in options.threadgroup_memory)
    kernel(
        *arguments,
        grid=_extent("--grid", options.grid),
        grid_threads=_extent("--grid-threads", options.grid_threads),
        threads=_extent("--threads", options.threads) or 1,
        threadgroup_memory=memory,
    )
    for text in options.out or _written(kernel, arguments):
        _show(kernel, arguments, text)
    return 0


def _source(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise ArgumentError(f"cannot read {printable(str(file))}: {why}") from None


def _list(library: Library) -> None:
    for name in library.function_constants:
        _print(f"constant {name}")
    for source in library.kernel_sources:
        _print(source.name)
        for p in source.parameters:
            where = p.attribute if p.kind == "position" else f"{p.kind} {p.index}"
            _print(f"    {p.type} {p.name}  [{where}]")


def _print(line: str) -> None:
    """One line for one fact, whatever the names in it hold."""
    print(printable(line))


def _written(kernel: Kernel, arguments: Sequence[object]) -> list[str]:
    """The arguments that the kernel may write."""
    buffers = zip(kernel.buffers, arguments, strict=True)
    return [str(i) for i, (p, a) in enumerate(buffers) if isinstance(a, np.ndarray) and kernel.info(p).is_const == b"\0"]


def _show(kernel: Kernel, arguments: Sequence[object], text: str) -> None:
    index, _, path = text.partition("=")
    if not index.isdecimal() or int(index) >= len(arguments):
        raise ArgumentError(f"--out {text} is no argument; there are {len(arguments)}", hint="--out 0 or --out 0=x.npy")
    value = np.asarray(arguments[int(index)])
    if path:
        _save(path, value)
    else:
        print(f"{kernel.buffers[int(index)].name} = {np.array2string(value, threshold=64)}")


def _save(path: str, value: np.ndarray) -> None:
    try:
        np.save(path, value)
    except OSError as error:
        raise ArgumentError(f"--out cannot write {path}: {error.strerror}") from None


def _argument(text: str) -> object:
    if text.endswith(".npy"):
        try:
            return np.ascontiguousarray(np.load(text))
        except (OSError, ValueError, EOFError) as error:
            raise ArgumentError(f"--arg {text}: {error}", hint="a file that np.save has written") from None
    if ":" in text:
        return _array(text)
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"--arg {text} is no file, shape or number", hint="x.npy, f32:1024, rand:f16:4x8, 3 or 0.5") from None


def _array(text: str) -> np.ndarray:
    """`f32:4x8` is zeros, `rand:f32:4x8` the same random numbers each time."""
    *kind, name, shape_text = text.split(":")
    known = {d.name: d for d in dtypes.ALL}
    sizes = shape_text.split("x")
    if name not in known or kind not in ([], ["rand"]) or not all(s.isdecimal() for s in sizes):
        raise ArgumentError(f"--arg {text} is no dtype:shape; the dtypes are {', '.join(known)}", hint="f32:1024 or rand:f16:4x8")
    try:
        return _filled(known[name], tuple(map(int, sizes)), is_random=bool(kind))
    except (MemoryError, ValueError):
        raise ArgumentError(f"--arg {text} is larger than the memory") from None


def _filled(dtype: dtypes.DType, shape: tuple[int, ...], *, is_random: bool) -> np.ndarray:
    if not is_random:
        return np.zeros(shape, dtype.np_storage)
    draw = np.random.default_rng(0)
    values = draw.standard_normal(shape) if dtype.is_float else draw.integers(0, 2 if dtype.is_bool else 100, shape)
    rounded = numerics.round_to(values, dtype) if dtype.is_float else values.astype(dtype.np_compute)
    return np.ascontiguousarray(numerics.encode(rounded, dtype))


def _memory(text: str) -> tuple[int, int]:
    index, nbytes = _pair(text)
    if not index.isdecimal() or not nbytes.isdecimal():
        raise ArgumentError(f"--threadgroup-memory {text} is no INDEX=NBYTES", hint="--threadgroup-memory 0=1024")
    return int(index), int(nbytes)


def _constant(text: str) -> tuple[str | int, object]:
    name, value = _pair(text)
    key: str | int = int(name) if name.isdecimal() else name
    if value in ("true", "false"):
        return key, value == "true"
    number = _argument(value)
    if not isinstance(number, int | float):
        raise ArgumentError(f"--constant {text} is no number", hint="--constant n=3 or --constant flag=true")
    return key, number


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"{text!r} is no NAME=VALUE")
    return name, value


def _extent(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not all(part.isdecimal() for part in text.split(",")):
        raise ArgumentError(f"{option} {text} is not one to three sizes", hint=f"{option} 4 or {option} 4,2,1")
    return tuple(int(part) for part in text.split(","))
