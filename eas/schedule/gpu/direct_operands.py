"""Which operands of products simdgroups load from device memory themselves, without threadgroup memory.

`simdgroup_load` has no mask and wants one matrix with rows a fixed distance apart. So an operand is
read where it lies if it is a load without a mask (or one that was proven full), of the dtype of the
matrices, whose offsets are affine: one axis in single steps, the other in steps that are the same for
the whole program. An unmasked load is in range by the rules of the language, and a matrix needs no
more alignment than its elements.

It pays where an element is read by few simdgroups: each reads it from the cache instead of from
threadgroup memory, and the copy and its barriers are gone. The rule: at most two simdgroups, which
is every tile up to 64 x 64, and tall or wide ones along their long side. Larger tiles (a 128 x 128
one has 4 x 4 simdgroups) stage, as do operands that a loop multiplies with again and again.

Nobody may write what is read later than the kernel says: the buffer is only read, and written ones
overlap no other (the launch fact `disjoint`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eas.analysis import PointerBases, producers, uses, writes
from eas.analysis.indexing import Forms, Linear
from eas.analysis.indexing.linear import ONE, ZERO
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Arg, Inst, IRModule, Region, Value, make
from eas.ir.rewriting import Rewriter, rewrite
from eas.passes.eliminate_dead import eliminate_dead
from eas.schedule.gpu.layouts import Layout

_MOST_READERS = 2


@dataclass(frozen=True)
class _Matrix:
    """Where an operand lies: what its load points to, the distance of rows, whether memory holds columns as rows."""

    pointers: Value
    row: Linear
    is_turned: bool
    is_view: bool  # x.T of what is loaded


_Sides = tuple[_Matrix | None, _Matrix | None]


def load_operands_directly(module: IRModule, products: Mapping[Value, Layout]) -> IRModule:
    """`dot_direct` in place of each `dot` with an operand that is better read from device memory.

    `products` has the layout of each product that runs on simdgroup matrices.
    """
    if not products or not all(module.arg(name).attr("noalias") for name in writes(module)):
        return module
    finder = _Finder(module)
    found: dict[Value, _Sides] = {}
    for region in _regions(module.body):
        for inst in region.body:
            if inst.op.name == "dot" and inst.out in products:
                sides = finder.sides(inst, region, products[inst.out])
                if sides != (None, None):
                    found[inst.out] = sides

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        sides = found.get(inst.outs[0]) if inst.op.name == "dot" else None
        return None if sides is None else _replaced(inst, sides, finder, rw)

    return eliminate_dead(rewrite(module, rule)) if found else module


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for inst in region.body:
        for inner in inst.regions:
            yield from _regions(inner)


class _Finder:
    """Looks for loads that simdgroups can do themselves."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.forms = Forms(module)
        self.made = producers(module)
        self.bases = PointerBases(module)
        self.uses = uses(module)
        self.written = set(writes(module))

    def sides(self, dot: Inst, region: Region, layout: Layout) -> _Sides:
        a, b = (
            self._matrix(v, region) if _readers(layout, axis) <= _MOST_READERS else None
            for v, axis in zip(dot.operands[:2], (-2, -1), strict=True)
        )
        return a, b

    def _matrix(self, value: Value, region: Region) -> _Matrix | None:
        load = self.made.get(value)
        is_view = load is not None and load.op.name == "permute" and load["order"] == _swapped(len(value.shape))
        if load is not None and is_view:
            if self.uses[load.out] != 1:
                return None
            load = self.made.get(load.operands[0])
        if load is None or load.op.name != "load" or len(load.operands) != 1 or self.uses[load.out] != 1:
            return None
        pointers = load.operands[0]
        base = self.bases[pointers]
        if not any(inst is load for inst in region.body) or not isinstance(base, Arg) or base.name in self.written:
            return None
        found = self._rows(pointers)
        if found is None:
            return None
        row, is_turned = found
        return _Matrix(pointers, row, is_turned != is_view, is_view)

    def _rows(self, pointers: Value) -> tuple[Linear, bool] | None:
        """The distance of rows, and whether it is that of the last axis; the other axis goes in single steps."""
        form, rank = self.forms.of(pointers), len(pointers.shape)
        if form is None:
            return None
        strides = [form.stride(axis) for axis in range(rank)]
        if None in strides:
            return None
        down, across = strides[-2:]
        row, is_turned = (down, False) if across == ONE else (across, True)
        if row is None or row == ZERO or (is_turned and down != ONE):
            return None
        numbers = [s for s in row.symbols() if s.kind != "value" or not s.value.type.is_scalar]
        return None if numbers else (row, is_turned)

    def is_narrow(self, pointers: Value) -> bool:
        """Whether offsets fit 32 bits."""
        whole = self.forms.ranges[pointers]
        fits = dtypes.i32.min <= whole.lo and whole.hi <= dtypes.i32.max
        return fits or bool(self.module.attr("offsets32"))


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _readers(layout: Layout, axis: int) -> int:
    """How many simdgroups read each element of an operand that has this axis of the product."""
    return 1 << sum(1 for column in layout.simdgroup if not layout.coordinate(column)[axis])


def _replaced(dot: Inst, sides: _Sides, finder: _Finder, rw: Rewriter) -> Sequence[Value]:
    operands, rows = list(dot.operands), []
    for i, side in enumerate(sides):
        if side is None:
            continue
        pointers = rw.use(side.pointers)
        if side.is_view:
            pointers = rw.emit("permute", pointers, order=_swapped(len(pointers.shape)))
        operands[i] = pointers
        rows.append(_number(side.row, finder.is_narrow(side.pointers), rw))
    attrs = {f"{side}_turned": matrix is not None and matrix.is_turned for side, matrix in zip("ab", sides, strict=True)}
    made = make("dot_direct", [*operands, *rows], attrs, loc=dot.loc, hints=[dot.out.hint])
    return rw.append(made).outs


def _number(formula: Linear, is_narrow: bool, rw: Rewriter) -> Value:
    """The value of a formula over scalars."""
    kind = Type(dtypes.i32 if is_narrow else dtypes.i64)
    total: Value | None = None
    for monomial, coefficient in formula.items():
        part = rw.const(coefficient, kind) if coefficient != 1 or not monomial else None
        for symbol in monomial:
            value = rw.use(symbol.value)
            value = value if value.type == kind else rw.emit("cast", value, type=kind)
            part = value if part is None else rw.emit("mul", part, value)
        assert part is not None
        total = part if total is None else rw.emit("add", total, part)
    assert total is not None, "a distance of 0 was refused"
    return total
