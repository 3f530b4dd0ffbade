"""Plans: which kernels run in which order on which buffers; made once per structure and replayed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eas.base import config
from eas.base.loading import load
from eas.interop.devices import CPU
from eas.interop.memory import allocate
from eas.lazy import kernels
from eas.lazy.calls import CallStep
from eas.lazy.group import Cut, Group, partition
from eas.lazy.lower import CannotView, Number, Program, as_scalar, lower, memory_view
from eas.lazy.node import Node, linearise
from eas.lazy.view import Moves
from eas.runtime.launch_settings import setting_now
from eas.runtime.streams import SPECIAL

if TYPE_CHECKING:
    from eas.ir import IRModule
    from eas.lazy.kernels import BuiltKernel, Spec

_NONE: dict[str, Any] = {}
SMALL_NBYTES = 1 << 14


class Buffer(NamedTuple):
    """Memory of a plan: the steps from its writer to its last reader, and whose memory it takes over."""

    id: int
    nbytes: int
    first: int
    last: int
    reused_from: int | None
    node: Node


class Step:
    """One kernel of a plan: what it is called, what it computes, and its arguments."""

    __slots__ = ("bytes", "dead", "flops", "grid", "in_place", "inputs", "is_flat", "kernel", "name", "nodes", "numbers", "outputs", "program", "scalars", "seconds", "spec", "template", "writes")

    def __init__(self, program: Program, spec: Spec, kernel: BuiltKernel, slots: dict[Node, int], nodes: list[Node]) -> None:
        self.program, self.spec, self.kernel = program, spec, kernel
        self.template = spec.template
        self.nodes = nodes
        self.inputs = [slots[b] for b in program.buffers]
        self.outputs = [slots[o] for o in program.written]
        self.writes = [(o.shape, o.dtype, o.device) for o in program.written]
        sizes = [a.size for a in program.axes]
        self.grid = kernels.grid_of(spec, sizes)
        self.name = "_".join([kernel.__name__.split("_")[0], *[str(n) for n in sizes if n != 1], *spec.words])
        self.scalars = list(program.scalars)
        self.numbers = [(i, s) for i, s in enumerate(program.scalars) if isinstance(s, Number)]
        self.dead: list[int] = []
        self.in_place: int | None = None
        self.bytes = sum([n.size * n.dtype.nbytes for n in (*program.buffers, *program.written)])
        self.flops = _flops(program)
        self.seconds: float | None = None
        self.is_flat = all(b.memory is None or b.memory.is_contiguous for b in program.buffers)

    @property
    def module(self) -> IRModule:
        """The block IR before the passes."""
        return self.kernel.compiled.traced

    def run(self, values: list[Any], numbers: list[Any], is_timed: bool = False) -> None:
        """Launch; the outputs are new arrays in their slots."""
        args: list[Any] = []
        for slot, (shape, dtype, device) in zip(self.outputs, self.writes, strict=True):
            if self.in_place is not None:  # the first output takes the memory of an operand that nobody reads again
                made = values[slot] = values[self.in_place].reshape(shape)
                args.append(made)
                continue
            # The pool takes longer than a small kernel; a GPU wants its own memory.
            made = values[slot] = np.empty(shape, dtype.np_storage) if device is CPU and self.bytes <= SMALL_NBYTES else allocate(shape, dtype, device)
            args.append(made)
        for slot in self.inputs:
            args.append(values[slot])
        if not self.is_flat:
            args[len(self.outputs) :] = [_reach(a) for a in args[len(self.outputs) :]]
        scalars = self.scalars
        if self.numbers:
            scalars = list(scalars)
            for i, number in self.numbers:
                scalars[i] = as_scalar(numbers[number.position], number.dtype)
        args += scalars
        self._launch(args, is_timed)
        for slot in self.dead:
            values[slot] = None

    def _launch(self, args: list[Any], is_timed: bool) -> None:
        if 0 in self.grid:
            return
        device = self.writes[0][2]
        if device.name != "cpu" and device.synchronize is not None and device.dlpack_type != 1:
            types = [o[1] for o in self.writes] + list(self.spec.buffer_types)
            homes = [o[2] for o in self.writes] + [b.device for b in self.program.buffers]
            args[: len(types)] = [kernels.Placed(a, t, d) for a, t, d in zip(args, types, homes, strict=False)]
        begin = time.perf_counter() if is_timed else 0.0
        given = tuple(args)
        if SPECIAL or not self.kernel._table.call(given, _NONE, self.grid):
            if setting_now(config.debug):
                self._launch_told(given)
            else:
                self.kernel(*given, _grid=self.grid)
        if is_timed:
            self.seconds = time.perf_counter() - begin

    def _launch_told(self, args: tuple[Any, ...]) -> None:
        """Launch under the name that has the sizes."""
        load("eas.runtime.debug")
        from eas.runtime.debug import called

        with called(self.name):
            self.kernel(*args, _grid=self.grid)


def _reach(array: Any) -> Any:
    """The memory from the lowest to the highest element of an array, as one flat array."""
    if array.flags.c_contiguous:
        return array
    view = memory_view(array)
    count = view.offset + sum([s * (n - 1) for n, s in zip(view.shape, view.strides, strict=True) if s > 0]) + 1
    start = array
    for axis, stride in enumerate(view.strides):
        if stride < 0:
            start = np.flip(start, axis)
    return np.lib.stride_tricks.as_strided(start, (count,), (array.itemsize,))


def _flops(program: Program) -> int:
    total, domain = 0, 1
    for axis in program.axes:
        domain *= axis.size
    for inst in program.instructions:
        total += 2 * domain if inst[0] == "dot" else domain if inst[0] in ("map", "reduce", "scan") else 0
    if program.template == "tile":  # what follows the product runs once per result
        k = program.axes[-1].size
        total -= sum([domain - domain // k for inst in program.instructions if inst[0] == "map"])
    return total


class Plan:
    """The kernels that realise some nodes, in order."""

    def __init__(self, order: list[Node], wanted: list[Node], steps: list[Step | CallStep], cuts: list[Cut], slots: dict[Node, int], n_leaves: int) -> None:
        self.nodes = order
        self.kernels = steps
        self.cuts = cuts
        self.slots = slots
        self.wanted = [slots[n] for n in wanted]
        self.n_slots = max([*slots.values(), n_leaves - 1]) + 1
        self.buffers = _buffers(steps, slots, set(self.wanted), n_leaves)
        self.runs = 0
        self.by_numpy = self.is_empty = False
        """Whether NumPy computes it until it is hot; whether some node has no elements."""

    def run(self, leaves: list[Any], numbers: list[Any], is_timed: bool = False) -> list[Any]:
        """The arrays of the wanted nodes."""
        values = leaves + [None] * (self.n_slots - len(leaves))
        for step in self.kernels:
            step.run(values, numbers, is_timed)
        self.runs += 1
        return [values[slot] for slot in self.wanted]


def _buffers(steps: list[Step | CallStep], slots: dict[Node, int], wanted: set[int], n_leaves: int) -> list[Buffer]:
    """Liveness: an intermediate result is given back after its last reader, and its memory is used again."""
    first = {slot: i for i, step in enumerate(steps) for slot in step.outputs}
    last = dict(first)
    for i, step in enumerate(steps):
        for slot in step.inputs:
            last[slot] = i
    nodes = {slot: node for node, slot in slots.items()}
    free: list[tuple[int, int]] = []
    made: list[Buffer] = []
    for i, step in enumerate(steps):
        step.dead = [s for s in {*step.inputs, *step.outputs} if last.get(s) == i and s >= n_leaves and s not in wanted]
        if isinstance(step, Step):
            step.in_place = _taken_over(step)
    for i, step in enumerate(steps):
        for slot in step.outputs:
            nbytes = nodes[slot].size * nodes[slot].dtype.nbytes
            taken = next((f for f in free if f[0] == nbytes), None)
            if isinstance(step, Step) and step.in_place is not None:
                taken = (nbytes, step.in_place)
            elif taken:
                free.remove(taken)
            end = len(steps) if slot in wanted else last[slot]
            made.append(Buffer(slot, nbytes, i, end, taken[1] if taken else None, nodes[slot]))
        given_on = step.in_place if isinstance(step, Step) else None
        free += [(nodes[s].size * nodes[s].dtype.nbytes, s) for s in step.dead if s != given_on]
    return made


def _taken_over(step: Step) -> int | None:
    """An operand that ends here, and that this kernel reads nowhere but where it then writes its only output."""
    program = step.program
    if len(program.outputs) != 1:
        return None
    _, dtype, *place = program.outputs[0]
    for buffer, slot in enumerate(step.inputs):
        node = program.buffers[buffer]
        if slot not in step.dead or node.dtype is not dtype or node.size != program.written[0].size:
            continue
        reads = [inst for inst in program.instructions if inst[0] in ("load", "gather") and inst[1] == buffer]
        if all(inst[0] == "load" and list(inst[3:6]) == place for inst in reads):
            return slot
    return None


def make_plan(order: list[Node], wanted: list[Node], leaves: list[Node], numbers: dict[tuple[Node, int], int], is_metal: bool, forced: dict[Node, str]) -> Plan:
    """Fuse, lower, and look every kernel up; nothing is compiled yet."""
    for node in order:
        if node.op.kind == "gather" and node.memory is None and node.src[0].memory is None:
            forced[node.src[0]] = "a gather reads its table from memory"
    while True:
        parts = partition(order, wanted, forced)
        try:
            programs = [(g, None if g.template == "call" else lower(g, parts.materialised, numbers)) for g in parts.groups]
            break
        except CannotView as problem:
            _keep_in_memory(problem.node, problem.reason, forced)
    slots = {n: i for i, n in enumerate(leaves)}
    for group, _ in programs:
        for node, _, _ in group.outputs:
            slots.setdefault(node, len(slots))
    steps = [_step(group, program, slots, is_metal) if program else CallStep(group, slots, _call_sources(group, slots)) for group, program in programs]
    return Plan(order, wanted, steps, parts.cuts, slots, len(leaves))


def _keep_in_memory(node: Node, reason: str, forced: dict[Node, str]) -> None:
    assert node.memory is None, f"{node} is in memory already"
    assert node not in forced, f"{node} is in memory already, because {forced[node]}"
    forced[node] = reason


def _call_sources(group: Group, slots: dict[Node, int]) -> list[tuple[Node, Moves]]:
    """The buffers that a call reads, each with the movements that make an argument of it."""
    found: list[tuple[Node, Moves]] = []
    for node in group.outputs[0][0].src:
        moves: Moves = ()
        while node not in slots:
            moves = ((node.op.name, node.arg), *moves)
            node = node.src[0]
        found.append((node, moves))
    return found


def _step(group: Group, program: Program, slots: dict[Node, int], is_metal: bool) -> Step:
    spec = kernels.spec_of(program, is_metal)
    return Step(program, spec, kernels.kernel_of(spec, program.places), slots, list(reversed(group.members)))


__all__ = ["Buffer", "Cut", "Plan", "Step", "linearise", "make_plan"]
