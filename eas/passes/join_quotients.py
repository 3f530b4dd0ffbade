"""A flat index that was taken apart and put together again is itself: (i // w + a) * w + i % w + b = i + a * w + b."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from eas.base.dtypes import DType
from eas.base.trampoline import Definition, evaluate
from eas.base.types import Shape, Type
from eas.ir import Inst, IRModule, Value, make, walk
from eas.ir.rewriting import Rewriter, rewrite

_View = tuple[str, tuple[tuple[str, Any], ...]]
_Atom = tuple[Value, tuple[_View, ...]]  # a value, and how it is seen as a block of the shape of the sum
_Monomial = tuple[int, ...]  # numbers of atoms, ascending
_Sum = dict[_Monomial, int]
_Quotient = tuple[_Atom, _Monomial, int]  # what is divided, and the factors that it is divided by

_MOST = 24  # terms of a sum that is still looked at


def join_quotients(module: IRModule) -> IRModule:
    """Block offsets in which `i // w * w` and `i % w` meet have `i` instead; w is known to be positive.

    In textbooks: algebraic simplification of div and mod.

        %r = floordiv %i, %w; %c = mod %i, %w
        %at = (%r + 1) * %w + %c
        ->
        %at = add %i, %w
    """
    names = {inst.op.name for inst in walk(module.body) if any(out.shape for out in inst.outs)}
    if not {"floordiv", "mod"} <= names:
        return module
    positive = {a.value for a in module.args if not a.is_buffer and a.attr("range", (0, 0))[0] > 0}

    joinings: dict[DType, _Joining] = {}

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "addptr" or not inst.out.shape:
            return None
        pointer, offset = inst.operands
        joining = joinings.setdefault(offset.dtype, _Joining(rw, positive, offset.dtype))
        joined = joining.value(offset)
        return None if joined is None else [rw.emit("addptr", pointer, joined)]

    return rewrite(module, rule)


class _Joining:
    """The sums behind blocks of offsets of one dtype."""

    def __init__(self, rw: Rewriter, positive: set[Value], dtype: DType) -> None:
        self.rw, self.positive, self.dtype = rw, positive, dtype
        self._sums: dict[_Atom, _Sum | None] = {}
        self.atoms: list[_Atom] = []
        self.numbers: dict[_Atom, int] = {}

    def value(self, offset: Value) -> Value | None:
        """The offset after joining, None if there was nothing to join."""
        total = self._sum(offset, ())
        is_joined = False
        while total is not None and (found := self._join(total)) is not None:
            total, is_joined = found, True
        return self._emit(total, offset.shape) if is_joined and total is not None else None

    # --- reading ------------------------------------------------------------------------------

    def _atom(self, value: Value, views: tuple[_View, ...]) -> _Sum:
        atom = (value, views if value.shape else ())
        if atom not in self.numbers:
            self.numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
        return {(self.numbers[atom],): 1}

    def _sum(self, value: Value, views: tuple[_View, ...]) -> _Sum | None:
        return evaluate(self._summed, (value, views), self._sums)

    def _summed(self, atom: _Atom) -> Definition[_Atom, _Sum | None]:
        value, views = atom
        inst = self.rw.producer.get(value)
        if inst is None or value.dtype is not self.dtype:
            return self._atom(value, views)
        name = inst.op.name
        if name == "const":
            return {(): inst["value"]} if inst["value"] else {}
        if name in ("broadcast", "expand_dims"):
            return (yield inst.operands[0], ((name, inst.attrs), *views))
        if name == "mul" or (name in ("add", "sub") and value.shape):
            a, b = (yield inst.operands[0], views), (yield inst.operands[1], views)
            if a is None or b is None:
                return None
            made = _product(a, b) if name == "mul" else _plus(a, b, 1 if name == "add" else -1)
            return made if len(made) <= _MOST else None
        return self._atom(value, views)

    def _quotient(self, atom: _Atom) -> _Quotient | None:
        """x // a // b is x over a * b, which are positive."""
        value, views = atom
        factors: _Monomial = ()
        number = 1
        while (inst := self.rw.producer.get(value)) is not None and inst.op.name == "floordiv":
            divisor = self._divisor(inst.operands[1])
            if divisor is None:
                return None
            factors, number, value = (*factors, *divisor[0]), number * divisor[1], inst.operands[0]
        return (value, views), tuple(sorted(factors)), number

    def _divisor(self, value: Value) -> tuple[_Monomial, int] | None:
        """A product of positive numbers."""
        total = self._sum(value, ())
        if total is None or len(total) != 1:
            return None
        ((monomial, c),) = total.items()
        is_positive = c > 0 and all(self.atoms[i][0] in self.positive for i in monomial)
        return (monomial, c) if is_positive else None

    # --- joining ------------------------------------------------------------------------------

    def _join(self, total: _Sum) -> _Sum | None:
        for monomial, c in total.items():
            for i in monomial:
                joined = self._joined(total, monomial, c, i)
                if joined is not None:
                    return joined
        return None

    def _joined(self, total: _Sum, monomial: _Monomial, c: int, i: int) -> _Sum | None:
        """The sum after the remainder `i` of one term met its quotient in another."""
        value, views = self.atoms[i]
        inst = self.rw.producer.get(value)
        if inst is None or inst.op.name != "mod":
            return None
        x, divisor = inst.operands[0], self._divisor(inst.operands[1])
        whole = self._quotient((x, views))
        if divisor is None or whole is None:
            return None
        wanted = (whole[0], tuple(sorted(whole[1] + divisor[0])), whole[2] * divisor[1])
        rest = _without(monomial, (i,))
        for other, d in total.items():
            for k in other:
                if self._quotient(self.atoms[k]) != wanted or d != c * divisor[1]:
                    continue
                if rest is not None and _without(other, (k,)) == tuple(sorted(rest + divisor[0])):
                    left = {m: n for m, n in total.items() if m not in (monomial, other)}
                    inner = self._sum(x, views)
                    return None if inner is None else _plus(left, _product(inner, {rest: c}), 1)
        return None

    # --- writing ------------------------------------------------------------------------------

    def _emit(self, total: _Sum, shape: Shape) -> Value:
        """Terms that are the same for all elements are added up as one number."""
        kind = Type(self.dtype)
        blocks: list[Value] = []
        numbers: list[Value] = []
        for monomial, c in total.items():
            atoms = [self.atoms[i] for i in monomial]
            factors = [v for v, _ in atoms if not v.shape]
            if c != 1 or not factors:
                factors.append(self.rw.const(c, kind))
            seen = [self._seen(a, shape) for a in atoms if a[0].shape]
            if not seen:
                numbers.append(self._fold("mul", factors))
                continue
            is_plain = c == 1 and len(seen) == len(atoms)
            blocks.append(self._fold("mul", seen if is_plain else [*seen, self._broadcast(self._fold("mul", factors), shape)]))
        if numbers:
            blocks.append(self._broadcast(self._fold("add", numbers), shape))
        return self._fold("add", blocks) if blocks else self._broadcast(self.rw.const(0, kind), shape)

    def _fold(self, name: str, values: Sequence[Value]) -> Value:
        first, *rest = values
        for value in rest:
            first = self.rw.emit(name, first, value)
        return first

    def _broadcast(self, value: Value, shape: Shape) -> Value:
        return self.rw.emit("broadcast", value, shape=shape)

    def _seen(self, atom: _Atom, shape: Shape) -> Value:
        value, views = atom
        for name, attrs in views:
            value = self.rw.append(make(name, [value], dict(attrs), (), self.rw.loc)).out
        assert value.shape == shape
        return value


def _plus(a: _Sum, b: _Sum, sign: int) -> _Sum:
    total = dict(a)
    for m, c in b.items():
        total[m] = total.get(m, 0) + sign * c
    return {m: c for m, c in total.items() if c}


def _product(a: _Sum, b: _Sum) -> _Sum:
    total: _Sum = {}
    for m, c in a.items():
        for n, d in b.items():
            both = tuple(sorted(m + n))
            total[both] = total.get(both, 0) + c * d
    return {m: c for m, c in total.items() if c}


def _without(monomial: _Monomial, taken: _Monomial) -> _Monomial | None:
    left = Counter(monomial)
    left.subtract(taken)
    return tuple(sorted(left.elements())) if min(left.values(), default=0) >= 0 else None
