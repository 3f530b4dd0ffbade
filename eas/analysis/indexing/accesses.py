"""One entry per instruction that touches memory: its base, offsets, mask and alignment."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

from eas.analysis.indexing.affine import Affine
from eas.analysis.indexing.boxes import Box, Boxes
from eas.analysis.indexing.forms import Forms
from eas.analysis.indexing.linear import ONE
from eas.analysis.program import PointerBases, mask_of, touches_memory
from eas.analysis.ranges import Contiguity, Range
from eas.ir import Arg, Inst, IRModule, Trait, Value, walk

AccessKind = Literal["load", "store", "atomic"]


@dataclass(frozen=True, eq=False)
class Access:
    """How one operand of an instruction addresses memory."""

    inst: Inst
    kind: AccessKind
    pointer: Value
    base: Arg | Value
    name: str
    form: Affine | None  # the offset in elements; None for a gather
    box: Box
    range: Range  # of the offset, masked-off lanes included

    @property
    def is_affine(self) -> bool:
        return self.form is not None

    @property
    def axes(self) -> tuple[Contiguity, ...]:
        return self.range.axes

    @property
    def contiguous_axis(self) -> int | None:
        """The last axis along which neighbours are neighbours in memory, if there is one."""
        axes = [i for i, c in enumerate(self.axes) if c.run > 1]
        if self.form is not None:
            axes += [t.axis for t in self.form.terms if self.form.stride(t.axis) == ONE]
        return max(axes, default=None)

    def aligned_nbytes(self, axis: int) -> int:
        """Every run along `axis` starts at an address that is a multiple of this."""
        nbytes = self.pointer.dtype.nbytes
        base = self.base.attr("align", nbytes) if isinstance(self.base, Arg) else nbytes
        return gcd(base, self.axes[axis].multiple * nbytes)

    def __str__(self) -> str:
        place = f"gather {self.name}" if self.form is None else f"{self.name} + {self.form}"
        text = f"{self.kind} {self.name}: {place}"
        if not self.box.is_full:
            text += f"   mask: {self.box}"
        axis = self.contiguous_axis
        if axis is None:
            return text
        run = self.axes[axis]
        runs = f"runs of {run.run} from multiples of {run.multiple}"
        return (
            f"{text}   [contiguous axis {axis}, {runs}, {self.aligned_nbytes(axis)}-byte aligned]"
        )


@dataclass(frozen=True, eq=False)
class IndexInfo:
    """The accesses of a module in program order."""

    module: IRModule
    forms: Forms
    accesses: tuple[Access, ...]

    def of(self, inst: Inst) -> tuple[Access, ...]:
        """The accesses of one instruction; more than one only for `mma`."""
        return tuple(a for a in self.accesses if a.inst is inst)

    def dump(self) -> str:
        """One line per access."""
        return "".join(f"{access}\n" for access in self.accesses)


def analyse(module: IRModule) -> IndexInfo:
    """The index analysis of a module."""
    forms = Forms(module)
    boxes, bases = Boxes(forms), PointerBases(module)
    found = []
    for inst in walk(module.body):
        if touches_memory(inst):
            found += [
                _access(inst, v, forms, boxes, bases) for v in inst.operands if v.type.is_pointer
            ]
    return IndexInfo(module, forms, tuple(found))


def _access(inst: Inst, pointer: Value, forms: Forms, boxes: Boxes, bases: PointerBases) -> Access:
    op, base, mask = inst.op, bases[pointer], mask_of(inst)
    kind: AccessKind = "store" if op.has(Trait.WRITES) else "load"
    return Access(
        inst,
        "atomic" if op.has(Trait.ATOMIC) else kind,
        pointer,
        base,
        base.name if isinstance(base, Arg) else forms.names[base],
        forms.of(pointer),
        Box() if mask is None else boxes.of(mask),
        forms.ranges[pointer],
    )
