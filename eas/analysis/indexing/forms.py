"""The formula of every integer and pointer of a module, where it has one."""

from __future__ import annotations

from eas.analysis.indexing.affine import Affine, Term
from eas.analysis.indexing.linear import ONE, ZERO, Linear, Symbol
from eas.analysis.program import (
    HINTS,
    Producers,
    Step,
    carried_steps,
    definitions,
    moved_axes,
    producers,
    value_names,
)
from eas.analysis.ranges import Ranges, value_ranges
from eas.ir import Inst, IRModule, Trait, Value, walk

_MAX_SIZE = 24
_ARITHMETIC = frozenset(("add", "sub", "neg", "mul", "shl", "addptr"))


class Forms:
    """Formulas over unbounded integers; a value that may wrap is a symbol of its own."""

    def __init__(self, module: IRModule, ranges: Ranges | None = None) -> None:
        self.module = module
        self.ranges = ranges or value_ranges(module)
        self.origin: Producers = producers(module)
        # A bare number would read as one.
        self.names = {v: f"%{n}" if n.isdigit() else n for v, n in value_names(module).items()}
        self._order = {v: i for i, v in enumerate(definitions(module))}
        self._steps: dict[Value, tuple[Inst, Step, int]] = {}
        self.counters: dict[Value, Inst] = {}
        for inst in walk(module.body):
            if inst.op.name == "for":
                self._enter_loop(inst)
        self._forms: dict[Value, Affine | None] = {}
        self._axes: dict[Value, tuple[int, ...]] = {}
        for value in definitions(module):  # in order, so that no lookup goes deep
            self.of(value)
            self.axes(value)

    def _enter_loop(self, loop: Inst) -> None:
        params = loop.regions[0].params
        self.counters[params[0]] = loop
        for i, step in enumerate(carried_steps(loop, self.origin)):
            if step is not None:
                self._steps[params[i + 1]] = self._steps[loop.outs[i]] = (loop, step, i)

    def symbol(self, value: Value, kind: str = "value") -> Symbol:
        return Symbol(self._order[value], kind, self.names[value], value)

    def of(self, value: Value) -> Affine | None:
        """The formula; None for values that differ along two axes in an unknown way, and floats."""
        if value not in self._forms:
            self._forms[value] = self._compute(value)
        return self._forms[value]

    def _compute(self, value: Value) -> Affine | None:
        t = value.type
        if not t.is_pointer and not (t.is_value and t.dtype.is_int):
            return None
        r = self.ranges[value]
        if r.is_single and not t.is_pointer:
            return Affine(Linear(r.lo))
        inst = self.origin.get(value)
        if value in self._steps:
            form = self._stepped(value)
        elif inst is None or inst.regions:
            form = Affine() if t.is_pointer and inst is None and self._is_argument(value) else None
        else:
            form = self._of_result(inst)
        return form if form is not None and form.size <= _MAX_SIZE else self._opaque(value)

    def _is_argument(self, value: Value) -> bool:
        return any(arg.value is value for arg in self.module.args)

    def _opaque(self, value: Value) -> Affine | None:
        """The value as a symbol or a vector; None if it differs along more than one axis."""
        if value.type.is_pointer:
            return (
                Affine(Linear.symbol(self.symbol(value, "offset")))
                if value.type.is_scalar
                else None
            )
        axes = self._varying_axes(value)  # not `axes`: this very value has no formula yet
        symbol = self.symbol(value)
        if not axes:
            return Affine(Linear.symbol(symbol))
        return Affine(ZERO, (Term(axes[0], ONE, symbol, axes[0]),)) if len(axes) == 1 else None

    def axes(self, value: Value) -> tuple[int, ...]:
        """The axes along which the elements of any value may differ, ascending."""
        if value not in self._axes:
            form = self._forms.get(value)
            self._axes[value] = form.axes if form is not None else self._varying_axes(value)
        return self._axes[value]

    def _varying_axes(self, value: Value) -> tuple[int, ...]:
        wide = tuple(i for i, n in enumerate(value.shape) if n > 1)
        inst = self.origin.get(value)
        if inst is None or not inst.op.is_pure:
            return wide
        if inst.op.has(Trait.ELEMENTWISE) or inst.op.name == "const":
            return tuple(sorted({axis for v in inst.operands for axis in self.axes(v)}))
        where = moved_axes(inst) if inst.op.has(Trait.SHAPE) else None
        if where is None:
            return wide
        return tuple(sorted(where[axis] for axis in self.axes(inst.operands[0])))

    # --- loops ---

    def iteration(self, loop: Inst) -> Linear:
        """The number of iterations before this one."""
        counter = loop.regions[0].params[0]
        start, step = (self.of(loop.operands[i]) for i in (0, 2))
        if start == Affine() and step == Affine(ONE):
            return Linear.symbol(self.symbol(counter))
        return Linear.symbol(self.symbol(counter, "iteration"))

    def _stepped(self, value: Value) -> Affine | None:
        """initial + iteration * step, or initial + trips * step after the loop."""
        loop, step, index = self._steps[value]
        form = self.of(loop.operands[3 + index])
        by = self._step_form(step)
        param = loop.regions[0].params[1 + index]
        if form is None or by is None or not self.ranges.is_exact(param):
            return None
        before = self._order[loop.regions[0].params[0]]
        if any(
            s.order > before for s in by.symbols()
        ):  # invariant, but computed inside of the loop
            return None
        if value is not param:
            if by == Affine():
                return form
            # The last addition may still leave the type.
            if not (value.type.is_pointer or self.ranges.is_exact(loop.regions[0].yields[index])):
                return None
            trips = self.symbol(loop.regions[0].params[0], "trips")
            return form + by.scaled(Linear.symbol(trips))
        return form + self._repeated(loop, by)

    def _step_form(self, step: Step) -> Affine | None:
        result = Affine()
        for sign, value in step.terms:
            form = self.of(value)
            if form is None:
                return None
            result = result + form.scaled(Linear(sign))
        return result

    def _repeated(self, loop: Inst, by: Affine) -> Affine:
        """iteration * by, in terms of the loop counter where the counter's step divides `by`."""
        start, step = self.of(loop.operands[0]), self.of(loop.operands[2])
        pace = step.offset.literal if step is not None else None
        parts = (by.offset, *(t.stride for t in by.terms))
        if start is None or not pace or any(p.content % pace for p in parts):
            return by.scaled(self.iteration(loop))
        counter = Linear.symbol(self.symbol(loop.regions[0].params[0]))
        terms = [Term(t.axis, t.stride.divided(pace), t.vector, t.along) for t in by.terms]
        return Affine.of(by.offset.divided(pace), terms).scaled(counter - start.offset)

    # --- instructions ---

    def _of_result(self, inst: Inst) -> Affine | None:
        name = inst.op.name
        if name == "arange":
            return Affine(Linear(inst["start"]), (Term(0, ONE),))
        if name in HINTS:
            return self.of(inst.operands[0])
        if name == "alloc_tg":
            return Affine()
        chosen = self.ranges.chosen(inst.out) if len(inst.outs) == 1 else None
        if chosen is not None:
            return self.of(chosen)
        if name == "cast":
            same = inst.operands[0].dtype.is_int and self.ranges.is_exact(inst.out)
            return self.of(inst.operands[0]) if same else None
        forms = [self.of(v) for v in inst.operands]
        if inst.op.has(Trait.SHAPE) and len(forms) == 1 and forms[0] is not None:
            return _reshaped(inst, forms[0])
        if any(f is None for f in forms):
            return None
        known = [f for f in forms if f is not None]
        if name in _ARITHMETIC:
            return _arithmetic(inst, known) if self.ranges.is_exact(inst.out) else None
        return self._divided(inst, known) if name in ("floordiv", "mod") else None

    def _divided(self, inst: Inst, forms: list[Affine]) -> Affine | None:
        """(d*q + r) // d = q and % d = r, where r of constants and positions is in [0, d)."""
        form, divisor = forms[0], forms[1].offset.literal if forms[1].is_uniform else None
        if divisor is None or divisor <= 0:
            return None
        rest, lo = form.offset.const % divisor, form.offset.const % divisor
        hi, kept = lo, []
        for term in form.terms:
            if term.stride.content % divisor == 0:
                continue
            stride = term.stride.literal
            if stride is None or term.vector is not None:
                return None
            reach = stride * (inst.out.shape[term.axis] - 1)
            lo, hi = lo + min(0, reach), hi + max(0, reach)
            kept.append(term)
        if lo < 0 or hi >= divisor or any(c % divisor for _, c in form.offset.terms):
            return None
        remainder = Affine.of(Linear(rest), kept)
        if inst.op.name == "mod":
            return remainder
        whole = form - remainder
        terms = [Term(t.axis, t.stride.divided(divisor), t.vector, t.along) for t in whole.terms]
        return Affine.of(whole.offset.divided(divisor), terms)


def _reshaped(inst: Inst, form: Affine) -> Affine | None:
    if form.is_uniform:
        return form
    where = moved_axes(inst)
    if where is not None:
        return form.moved(where)
    if inst.op.name == "reshape" and sum(n > 1 for n in inst.operands[0].shape) == 1:
        return form.split(inst.out.shape)
    return None


def _arithmetic(inst: Inst, forms: list[Affine]) -> Affine | None:
    name = inst.op.name
    if name == "neg":
        return -forms[0]
    a, b = forms
    if name in ("add", "addptr"):
        return a + b
    if name == "sub":
        return a - b
    if name == "shl":
        count = b.offset.literal if b.is_uniform else None
        in_width = count is not None and 0 <= count < inst.out.dtype.bits
        return a.scaled(Linear(1 << count)) if count is not None and in_width else None
    if b.is_uniform:
        return a.scaled(b.offset)
    return b.scaled(a.offset) if a.is_uniform else None
