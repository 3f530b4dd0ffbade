"""How many programs a launch runs, and how many threads each has: pure functions of launch facts."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Literal, NoReturn, SupportsIndex

from eas.base.errors import GridError

Grid = tuple[int, int, int]
Scalars = Mapping[str, int | float]

MAX_GRID_EXTENT = 2**31 - 1
MAX_PROGRAMS = 2**63 - 1
"""Of a launch: programs are numbered by signed 64-bit integers."""
MAX_THREADS = 1024

_SPMD_THREADS: Grid = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class GridInfo:
    """What a compiled kernel says about its own launch."""

    kernel_name: str
    launch_mode: Literal["spmd", "thread"]
    axes: frozenset[int] = frozenset()
    """Axes of `mk.program_id`."""
    block_sizes: tuple[int, ...] = ()
    """Distinct lengths of `mk.arange`, or of `mk.tid` in thread mode."""
    num_programs_axes: frozenset[int] = frozenset()
    """Axes of `mk.num_programs`."""
    more_threads: tuple[int, int] = (1, 1)
    """Threads along axes 1 and 2 of a threadgroup."""


@dataclass(frozen=True, slots=True)
class GridOptions:
    """The launch options that size a grid, as the caller wrote them; None is not given."""

    grid: object = None
    shape: object = None
    nthreads: object = None


NO_OPTIONS = GridOptions()


def infer_grid(
    info: GridInfo,
    scalars: Scalars,
    meta: Mapping[str, object],
    options: GridOptions = NO_OPTIONS,
    args: Mapping[str, object] | None = None,
) -> Grid:
    """The grid of this launch; a 0 in it launches nothing. `args` is what a callable `_grid` sees."""
    grid = _wanted_grid(info, scalars, meta, options, args)
    check_programs(info.kernel_name, grid)
    return grid


def check_programs(kernel_name: str, grid: Grid) -> None:
    """Refuse a grid of more programs than can be numbered."""
    x, y, z = grid
    if x * y * z > MAX_PROGRAMS:
        raise GridError(
            f"the grid {grid} of kernel {kernel_name} has {x * y * z} programs, more than the largest possible {MAX_PROGRAMS}",
            hint="use a larger BLOCK, or several launches",
        )


def _wanted_grid(
    info: GridInfo,
    scalars: Scalars,
    meta: Mapping[str, object],
    options: GridOptions,
    args: Mapping[str, object] | None,
) -> Grid:
    if options.grid is not None:
        return _explicit_grid(info, options.grid, meta, scalars if args is None else args)
    axes = info.axes | info.num_programs_axes
    if not axes:
        return (1, 1, 1)
    if max(axes) == 0:
        block = _block(info)
        return (_programs(info, _linear_extent(info, scalars, meta, options), block), 1, 1)
    return _spatial_grid(info, axes, scalars, meta, options)


def check_tptg(info: GridInfo, tptg: object = None) -> Grid:
    """Threads per threadgroup: what the launch mode asks for, which a given `_tptg` must equal."""
    given = None if tptg is None else _triple(info, tptg, "_tptg")
    right = _SPMD_THREADS if info.launch_mode == "spmd" else _threads(info, given)
    threads = right[0] * right[1] * right[2]
    if not 1 <= threads <= MAX_THREADS:
        raise GridError(
            f"kernel {info.kernel_name} asks for {threads} threads per threadgroup; 1 to {MAX_THREADS} are possible",
            hint="use a smaller BLOCK and more programs",
        )
    if given is not None and given != right:
        raise GridError(
            f"_tptg={given} contradicts kernel {info.kernel_name}, which runs in {info.launch_mode} mode with {right}",
            hint=f"leave _tptg out, or pass _tptg={right}",
        )
    return right


def _threads(info: GridInfo, given: Grid | None) -> Grid:
    """The threadgroup of a thread-mode kernel: its tid length, or what is given if it has none."""
    if len(info.block_sizes) > 1:
        raise GridError(
            f"kernel {info.kernel_name} has {_lengths(info)}, but a threadgroup has one size",
            hint="give every mk.tid of the kernel the same BLOCK",
        )
    if info.block_sizes:
        return (info.block_sizes[0], *info.more_threads)
    if given is not None:
        return given
    raise GridError(
        f"kernel {info.kernel_name} runs in thread mode but never calls mk.tid, so its threads are not known",
        hint="pass _tptg=(threads, 1, 1), or use mk.tid(0, BLOCK) in the kernel",
    )


# --- an explicit grid ---------------------------------------------------------------------------


def _explicit_grid(
    info: GridInfo, grid: object, meta: Mapping[str, object], args: Mapping[str, object]
) -> Grid:
    if not callable(grid):
        return _triple(info, grid, "_grid")
    count = _positional_count(grid)
    if count == 0:
        raise GridError(
            f"the _grid callable of kernel {info.kernel_name} takes no positional parameter",
            hint="write it as `lambda meta, args: ...` or `lambda meta: ...`",
        )
    # Triton's one-parameter form finds runtime arguments and meta-parameters in the same mapping.
    result = grid({**args, **meta}) if count == 1 else grid(meta, args)
    return _triple(info, result, "the result of the _grid callable")


def _positional_count(fn: Callable[..., object]) -> int:
    """How many positional arguments `fn` can take, or 2 when it takes any number or does not say."""
    if type(fn) is FunctionType and not fn.__dict__:  # decorators leave traces in __dict__
        code = fn.__code__
        return 2 if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # some builtins have no signature
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _triple(info: GridInfo, value: object, what: str) -> Grid:
    """An int or a sequence of 1 to 3 ints, as three ints in range."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(items) <= 3:
        raise GridError(
            f"{what} of kernel {info.kernel_name} has {len(items)} extents, it takes 1 to 3: {value!r}",
            hint="pass an int or a tuple of 1 to 3 ints",
        )
    extents = [_extent(info, item, what) for item in items]
    x, y, z = extents + [1] * (3 - len(extents))
    return (x, y, z)


def _extent(info: GridInfo, value: object, what: str) -> int:
    """`value` as a number of programs, threads or elements that fits a signed 32-bit integer."""
    n = _size(info, value, what)
    if n > MAX_GRID_EXTENT:
        raise GridError(
            f"{what} of kernel {info.kernel_name} is {n}, more than the largest possible {MAX_GRID_EXTENT}",
            hint="use a larger BLOCK, or spread the work over two axes",
        )
    return n


def _size(info: GridInfo, value: object, what: str) -> int:
    n = _as_int(value)
    if n is None:
        raise GridError(
            f"{what} of kernel {info.kernel_name} needs integers, got {value!r} ({type(value).__name__})",
            hint="-(-n // BLOCK) rounds up and stays an int" if "_grid" in what else "pass a Python or NumPy integer",
        )
    if n < 0:
        raise GridError(
            f"{what} of kernel {info.kernel_name} is negative: {n}", hint="pass 0 or more"
        )
    return n


def _as_int(value: object) -> int | None:
    """`value` as an int if it is one (NumPy's included); bool and 0-d arrays of floats are not."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # arrays define __index__ and refuse later
        return None


# --- an inferred grid ---------------------------------------------------------------------------


def _linear_extent(
    info: GridInfo, scalars: Scalars, meta: Mapping[str, object], options: GridOptions
) -> int:
    """N of a kernel that uses axis 0 only."""
    if options.nthreads is not None:
        return _size(info, options.nthreads, "_nthreads")
    if options.shape is not None:
        shape = _shape(info, options.shape)
        if len(shape) != 1:
            raise GridError(
                f"_shape={shape} has {len(shape)} extents, but kernel {info.kernel_name} uses mk.program_id(0) only",
                hint="pass _shape=(N,), or the number of programs as _grid=...",
            )
        return shape[0]
    n = _named(info, "N", scalars, meta)
    if n is None:
        _missing(info, ["N"], "_nthreads=..., _shape=(N,), or an integer argument named N")
    return n


def _spatial_grid(
    info: GridInfo,
    axes: frozenset[int],
    scalars: Scalars,
    meta: Mapping[str, object],
    options: GridOptions,
) -> Grid:
    """(ceil(W / BLOCK), H, D), the last two over their threads; an axis that the kernel never asks for gets one program."""
    if options.nthreads is not None:
        raise GridError(
            f"_nthreads sizes axis 0 only, but kernel {info.kernel_name} uses axes {sorted(axes)}",
            hint="pass _shape=(H, W) or (D, H, W), or _grid=...",
        )
    block = _block(info) if 0 in axes else 1
    if options.shape is None:
        whd = _named_extents(info, axes, scalars, meta)
    else:
        whd = _shape_extents(info, axes, options.shape)
    w, h, d = (n if axis in axes else min(n, 1) for axis, n in enumerate(whd))
    rows, slices = info.more_threads
    return (_programs(info, w, block), _extent(info, -(-h // rows), "axis 1"), _extent(info, -(-d // slices), "axis 2"))


def _shape_extents(info: GridInfo, axes: frozenset[int], given: object) -> Grid:
    shape = _shape(info, given)
    needed = 3 if 2 in axes else 2
    if not needed <= len(shape) <= 3:
        raise GridError(
            f"_shape={shape} is too short: kernel {info.kernel_name} uses mk.program_id({max(axes)})"
            if len(shape) < needed
            else f"_shape={shape} has {len(shape)} extents; kernel {info.kernel_name} can use 3 at most",
            hint="pass _shape=(D, H, W)" if needed == 3 else "pass _shape=(H, W) or (D, H, W)",
        )
    w, h, d = (*reversed(shape), 1)[:3]
    return (w, h, d)


def _named_extents(
    info: GridInfo, axes: frozenset[int], scalars: Scalars, meta: Mapping[str, object]
) -> Grid:
    found = [
        _named(info, name, scalars, meta) if axis in axes else 1 for axis, name in enumerate("WHD")
    ]
    missing = [name for name, n in zip("WHD", found, strict=True) if n is None]
    if missing:
        shape = "(D, H, W)" if 2 in axes else "(H, W)"
        arguments = "an integer argument" if len(missing) == 1 else "integer arguments"
        _missing(info, missing, f"_shape={shape}, or {arguments} named {', '.join(missing)}")
    w, h, d = (n or 0 for n in found)
    return (w, h, d)


def _named(info: GridInfo, name: str, scalars: Scalars, meta: Mapping[str, object]) -> int | None:
    """The extent that the runtime or meta argument `name` gives, if there is one."""
    value: object = scalars[name] if name in scalars else meta.get(name)
    return None if value is None else _size(info, value, f"argument {name}")


def _missing(info: GridInfo, names: list[str], instead: str) -> NoReturn:
    raise GridError(
        f"cannot infer the grid of kernel {info.kernel_name}: {', '.join(names)} not given",
        hint=f"pass {instead}, or the number of programs as _grid=...",
    )


def _shape(info: GridInfo, value: object) -> tuple[int, ...]:
    items = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(_size(info, item, "_shape") for item in items)


def _block(info: GridInfo) -> int:
    """The one arange or tid length of the kernel."""
    if len(info.block_sizes) == 1 and info.block_sizes[0] > 0:
        return info.block_sizes[0]
    raise GridError(
        f"cannot infer the grid of kernel {info.kernel_name}: it has {_lengths(info)}, so BLOCK is not known",
        hint="pass the number of programs as _grid=...",
    )


def _lengths(info: GridInfo) -> str:
    call = "mk.arange" if info.launch_mode == "spmd" else "mk.tid"
    lengths = " and ".join(map(str, sorted(info.block_sizes)))
    return f"{call} lengths {lengths}" if lengths else f"no {call}"


def _programs(info: GridInfo, extent: int, block: int) -> int:
    return _extent(info, -(-extent // block), "axis 0")
