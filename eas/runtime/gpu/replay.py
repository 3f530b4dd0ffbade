"""A captured graph on the GPU: its commands are encoded by one native call, with barriers that were found once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from eas.runtime import Lane, Recording, Step
from eas.runtime.gpu.device import MetalDevice, MetalLane
from eas.runtime.gpu.launch import MetalExecutable, MetalLaunch, prepare
from eas.runtime.recordings import name_of


class MetalRecording(Recording):
    """Launches on memory of the GPU of kernels that have no log."""

    def __init__(self, device: MetalDevice, launches: Sequence[MetalLaunch], rows: tuple[tuple[Any, ...], ...], name: str) -> None:
        self._device, self._name = device, name
        owner = tuple(array for launch in launches for array in launch.bound.values())
        self._graph = device.extension().Graph(rows, name, owner)

    def run(self, *, sync: bool, lane: Lane | None) -> None:
        stream = cast(MetalLane, lane or self._device.default_lane).stream
        numbers, ticket = self._device.answer(self._name, lambda: self._graph(stream, sync))
        if not sync:
            return
        stream.wait(ticket)
        errors = [error for number in numbers if (error := self._device.failures.of_launch(number)) is not None]
        if errors:
            raise errors[0]


def recorded(device: MetalDevice, steps: Sequence[Step]) -> MetalRecording | None:
    """The launches as one graph; None if Python has something to do in one of them."""
    launches, rows = [], []
    for step in steps:
        launch = prepare(cast(MetalExecutable, step.executable), step.args, step.grid, device.target)
        code = launch.code
        if 0 in step.grid:
            continue
        places = [device.place_of(launch.bound[index]) for _, index, _ in code.buffers]
        if code.log_index is not None or None in places:
            return None
        plan = device.plan(step.executable.name, code)
        constants = b"" if code.scalars_index is None else launch.bound[code.scalars_index].tobytes()
        launches.append(launch)
        rows.append((plan, tuple(places), constants, step.grid))
    return MetalRecording(device, launches, tuple(rows), name_of(steps))
