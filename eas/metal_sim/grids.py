"""Sizes of a launch: threads of a threadgroup, threadgroups, threads of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eas.base.errors import GridError

Extent = int | Sequence[int]
MAX_THREADS = 1024
MAX_GROUPS = 2**31 - 1
"""Of a launch: the engine numbers threadgroups by 32 bits, and counts past the last one."""
MAX_AXIS_THREADS = 2**32 - 1
"""Metal numbers the threads of an axis by 32 bits."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Three extents each; a ragged grid has smaller threadgroups at its ends."""

    threads: tuple[int, int, int]
    groups: tuple[int, int, int]
    grid_threads: tuple[int, int, int]

    @property
    def is_empty(self) -> bool:
        return 0 in self.grid_threads


def shape_of(kernel: str, groups: Extent | None, grid_threads: Extent | None, threads: Extent, limit: int) -> Shape:
    """The sizes of a launch, checked against what Metal allows."""
    if (groups is None) == (grid_threads is None):
        raise GridError(
            f"a launch of {kernel} needs one of grid (threadgroups) and grid_threads (threads)",
            hint="grid=4, threads=256 runs 1024 threads",
        )
    size = _three("threads", threads)
    total = size[0] * size[1] * size[2]
    if total < 1 or total > min(limit, MAX_THREADS):
        raise GridError(
            f"a threadgroup of {kernel} has {total} threads; it may have 1 to {min(limit, MAX_THREADS)}"
        )
    if groups is not None:
        count = _three("grid", groups)
        return _countable(kernel, Shape(size, count, (count[0] * size[0], count[1] * size[1], count[2] * size[2])))
    assert grid_threads is not None
    all_threads = _three("grid_threads", grid_threads)
    a, b, c = (-(-n // s) for n, s in zip(all_threads, size, strict=True))
    return _countable(kernel, Shape(size, (a, b, c), all_threads))


def _countable(kernel: str, shape: Shape) -> Shape:
    """The same shape, if its threads and threadgroups can be numbered."""
    total = shape.groups[0] * shape.groups[1] * shape.groups[2]
    if total > MAX_GROUPS:
        raise GridError(
            f"the grid {shape.groups} of {kernel} has {total} threadgroups, more than the largest possible {MAX_GROUPS}",
            hint="use larger threadgroups, or several launches",
        )
    if max(shape.grid_threads) > MAX_AXIS_THREADS:
        raise GridError(
            f"the grid of {kernel} has {max(shape.grid_threads)} threads along one axis, more than the largest possible {MAX_AXIS_THREADS}",
            hint="spread the work over two axes",
        )
    return shape


def _three(name: str, extent: Extent) -> tuple[int, int, int]:
    values = [extent] if isinstance(extent, int) else list(extent)
    if not 1 <= len(values) <= 3 or any(not 0 <= v < 2**32 for v in values):
        raise GridError(f"{name}={extent!r} is not one to three sizes")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z
