"""Copies on the GPU, for memory that only the GPU sees: a blit where the bytes allow one, else a kernel that goes by strides."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from eas.base.errors import ArgumentError, FailedDependency
from eas.runtime.gpu.device import MetalDevice, MetalLane
from eas.runtime.gpu.memory import Place, address_of
from eas.runtime.streams import SPECIAL, lane_of

Array = NDArray[Any]
THREADS, MAX_AXES, MAX_GROUPS = 256, 16, 1 << 16
BLIT = 4  # offsets and sizes of blits are multiples of so many bytes on macOS
NAME = "eas_copy_elements"
TEXT = f"""#include <metal_stdlib>
using namespace metal;

struct Copy {{
    long count, target, source;
    int axes, nbytes;
    long sizes[{MAX_AXES}], target_steps[{MAX_AXES}], source_steps[{MAX_AXES}];
}};

kernel void {NAME}(device uchar* target [[buffer(0)]], const device uchar* source [[buffer(1)]], constant Copy& copy [[buffer(2)]],
                   uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]]) {{
    long rest = (long(group.y) * long(groups.x) + long(group.x)) * {THREADS} + long(thread_index);
    if (rest >= copy.count) return;
    long to = copy.target, from = copy.source;
    for (int axis = copy.axes - 1; axis >= 0; axis--) {{
        long at = rest % copy.sizes[axis];
        rest /= copy.sizes[axis];
        to += at * copy.target_steps[axis];
        from += at * copy.source_steps[axis];
    }}
    for (int i = 0; i < copy.nbytes; i++) target[to + i] = source[from + i];
}}
"""


class Axis(NamedTuple):
    """Elements along one axis, and the bytes from one to the next in the target and in the source."""

    size: int
    target: int
    source: int


class Reach(NamedTuple):
    """The bytes that an array of any layout lies in, and where its first element is among them."""

    place: Place
    first: int


def copy_elements(device: MetalDevice, target: Array, source: Array) -> None:
    """Fill `target` from `source`, which broadcasts to it; both are layouts of memory of the GPU that do not overlap, and it has happened on return."""
    if not target.size:
        return
    given = np.broadcast_to(source, target.shape)
    lane = cast(MetalLane, (lane_of(None, device) if SPECIAL else None) or device.default_lane)
    to, of = _reach(device, target), _reach(device, given)
    is_blit = target.flags.c_contiguous and given.flags.c_contiguous and not any(n % BLIT for n in (to.place.offset, of.place.offset, target.nbytes))
    try:
        number, ticket = device.answer("copy", lambda: _blit(lane, to, of) if is_blit else _by_strides(device, lane, target, given, to, of))
        device.finish(number, ticket, lane.stream, [])
    except FailedDependency:
        device.synchronize()  # the error itself, if it is one of this thread
        raise


def _reach(device: MetalDevice, array: Array) -> Reach:
    extents = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    before = -sum(e for e in extents if e < 0)
    nbytes = sum(map(abs, extents)) + array.itemsize
    place = device.memory.place_of(address_of(array) - before, nbytes)
    assert place is not None, "a copy of memory that is not the GPU's"
    return Reach(place, before)


def _blit(lane: MetalLane, to: Reach, of: Reach) -> Any:
    return lane.stream.copy(of.place.buffer, of.place.offset, to.place.buffer, to.place.offset, to.place.nbytes)


def _by_strides(device: MetalDevice, lane: MetalLane, target: Array, given: Array, to: Reach, of: Reach) -> Any:
    axes = joined([Axis(*a) for a in zip(target.shape, target.strides, given.strides, strict=True)])
    if len(axes) > MAX_AXES:
        raise ArgumentError(f"a copy on the GPU has at most {MAX_AXES} axes that cannot be joined, not {len(axes)}", hint="copy it part by part")
    groups = -(-target.size // THREADS)
    columns = list(zip(*axes, strict=True)) or [(), (), ()]
    padded = [value for column in columns for value in (*column, *[0] * (MAX_AXES - len(axes)))]
    constants = struct.pack(f"<3q2i{3 * MAX_AXES}q", target.size, to.first, of.first, len(axes), target.itemsize, *padded)
    grid = (min(groups, MAX_GROUPS), -(-groups // MAX_GROUPS), 1)
    return _plan(device)(lane.stream, (to.place, of.place), constants, grid, True, None)


def _plan(device: MetalDevice) -> Any:
    """The prepared launch of the kernel that copies by strides."""
    return device.planned((TEXT, "safe"), NAME, "3.1", ((0, True), (1, False)), 2, THREADS)


def joined(axes: list[Axis]) -> list[Axis]:
    """The same elements by as few axes as their steps allow."""
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        last = found[-1] if found else None
        if last and last.target == axis.size * axis.target and last.source == axis.size * axis.source:
            found[-1] = Axis(last.size * axis.size, axis.target, axis.source)
        else:
            found.append(axis)
    return found
