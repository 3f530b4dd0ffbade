"""Views: shape, strides, offset and bounds of a strided array, and the movements that compose on them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eas.interop.devices import Device

Shape = tuple[int, ...]
Move = tuple[Any, ...]
"""("reshape", shape), ("permute", axes), ("expand", shape), ("slice", ((start, step, count), ...)) or ("pad", ((before, after), ...)).

A third part may name what is moved, for who asks why a movement cannot be a view."""
Moves = tuple[Move, ...]
Bounds = tuple[int, int]


class View(NamedTuple):
    """Element i of a domain is at offset + sum(i * strides); outside of `bounds` there is nothing."""

    shape: Shape
    strides: Shape
    offset: int = 0
    bounds: tuple[Bounds | None, ...] = ()
    """Per axis, the half-open range where elements exist; empty: everywhere."""


def contiguous(shape: Shape) -> View:
    """The elements of a row-major array."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return View(shape, tuple(reversed(strides)))


def is_contiguous(view: View) -> bool:
    """Whether the elements lie in C order without gaps."""
    steps = contiguous(view.shape).strides
    return 0 in view.shape or all(n == 1 or s == step for n, s, step in zip(view.shape, view.strides, steps, strict=True))


def apply(view: View, move: Move) -> View | None:
    """The view after a movement, or None where strides cannot say it."""
    name, arg = move[:2]
    if name == "reshape":
        return _reshape(view, arg)
    if name == "permute":
        bounds = tuple([view.bounds[a] for a in arg]) if view.bounds else ()
        return View(tuple([view.shape[a] for a in arg]), tuple([view.strides[a] for a in arg]), view.offset, bounds)
    if name == "expand":
        return _expand(view, arg)
    return _slice(view, arg) if name == "slice" else _pad(view, arg)


def resolve(view: View, moves: Moves) -> View | None:
    """The view after movements, the one nearest to the memory first."""
    seen: View | None = view
    for move in moves:
        if seen is None:
            return None
        seen = apply(seen, move)
    return seen


def _expand(view: View, shape: Shape) -> View:
    strides = tuple([0 if n != m else s for n, m, s in zip(view.shape, shape, view.strides, strict=True)])
    bounds = view.bounds
    if bounds:
        bounds = tuple([b if n == m or b is None else (None if b[0] <= 0 < b[1] else (0, 0)) for n, m, b in zip(view.shape, shape, bounds, strict=True)])
    return View(shape, strides, view.offset, _trivial(bounds))


def _slice(view: View, spans: tuple[tuple[int, int, int], ...]) -> View:
    offset = view.offset + sum([start * s for (start, _, _), s in zip(spans, view.strides, strict=True)])
    strides = tuple([s * step for (_, step, _), s in zip(spans, view.strides, strict=True)])
    bounds = tuple([None if b is None else _sliced_bounds(b, *span) for b, span in zip(view.bounds, spans, strict=True)]) if view.bounds else ()
    return View(tuple([n for _, _, n in spans]), strides, offset, _trivial(bounds))


def _sliced_bounds(bounds: Bounds, start: int, step: int, count: int) -> Bounds | None:
    lo, hi = bounds
    if step < 0:  # start + step * i in [lo, hi): i in ((start - hi) / -step, (start - lo) / -step]
        first, last = (start - hi) // -step + 1, (start - lo) // -step
    else:
        first, last = -(-(lo - start) // step), -(-(hi - start) // step) - 1
    first, end = max(first, 0), min(last + 1, count)
    return None if (first, end) == (0, count) else (first, max(end, first))


def _pad(view: View, widths: tuple[tuple[int, int], ...]) -> View:
    shape = tuple([a + n + b for n, (a, b) in zip(view.shape, widths, strict=True)])
    offset = view.offset - sum([a * s for (a, _), s in zip(widths, view.strides, strict=True)])
    old = view.bounds or (None,) * len(shape)
    bounds = tuple([
        o if a == b == 0 else (a, a + n) if o is None else (o[0] + a, o[1] + a)
        for o, n, (a, b) in zip(old, view.shape, widths, strict=True)
    ])  # fmt: skip
    return View(shape, view.strides, offset, _trivial(bounds))


def _trivial(bounds: tuple[Bounds | None, ...]) -> tuple[Bounds | None, ...]:
    return bounds if any(b is not None for b in bounds) else ()


def _reshape(view: View, shape: Shape) -> View | None:
    if view.shape == shape:
        return view
    bounds = view.bounds or (None,) * len(view.shape)
    old = [(n, s, b) for n, s, b in zip(view.shape, view.strides, bounds, strict=True) if n != 1]
    if any(n == 1 and b is not None and not b[0] <= 0 < b[1] for n, b in zip(view.shape, bounds, strict=True)):
        if not old:  # one element, which does not exist: no axis is left to say so
            return None
        old[0] = (*old[0][:2], (0, 0))
    strides, i, k = [0] * len(shape), 0, 0
    made: list[Bounds | None] = [None] * len(shape)
    while i < len(old) or k < len(shape):
        if k < len(shape) and shape[k] == 1:
            k += 1
            continue
        if i == len(old) or k == len(shape):
            return None  # an array of no elements
        first, start, taken, given = i, k, old[i][0], shape[k]
        while taken != given:
            if taken < given:
                i += 1
                if i == len(old):
                    return None
                taken *= old[i][0]
            else:
                k += 1
                if k == len(shape):
                    return None
                given *= shape[k]
        group = old[first : i + 1]
        if any(a[1] != b[1] * b[0] for a, b in itertools.pairwise(group)):
            return None
        if len(group) == 1 and k == start:
            made[k] = group[0][2]
        elif any(b is not None for _, _, b in group):
            return None
        step = group[-1][1]
        for axis in range(k, start - 1, -1):
            strides[axis] = step if shape[axis] != 1 else 0
            step *= shape[axis]
        i, k = i + 1, k + 1
    return View(shape, tuple(strides), view.offset, _trivial(tuple(made)))


def moved_array(array: Any, move: Move, device: Device | None = None) -> Any:
    """The same movement of a NumPy array; a view where NumPy has one, else a copy, which of private memory the device makes."""
    name, arg = move[:2]
    if device is not None and device.copy is not None and name in ("reshape", "pad"):
        return _moved_private(array, name, arg, device)
    if name == "reshape":
        return array.reshape(arg)
    if name == "permute":
        return array.transpose(arg)
    if name == "expand":
        return np.broadcast_to(array, arg)
    if name == "slice":
        return array[tuple([_span(start, step, n) for start, step, n in arg])]
    return np.pad(array, arg)


def _moved_private(array: Any, name: str, arg: Any, device: Device) -> Any:
    if name == "reshape":
        return (array if array.flags.c_contiguous else device.cloned(array)).reshape(arg)
    made = device.new_array(tuple([n + before + after for n, (before, after) in zip(array.shape, arg, strict=True)]), array.dtype)
    device.fill(made, np.zeros((), array.dtype))
    assert device.copy is not None
    device.copy(made[tuple([slice(before, before + n) for n, (before, _) in zip(array.shape, arg, strict=True)])], array)
    return made


def _span(start: int, step: int, count: int) -> slice:
    if count == 0:
        return slice(0, 0)
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step)
