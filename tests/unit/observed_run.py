"""A slow interpreter that shows every value to a witness, and what formulas and boxes are in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eas.analysis import address_values
from eas.analysis.indexing import Affine, Box, Linear
from eas.base.dtypes import DType
from eas.ir import Inst, IRModule, Region, Value
from eas.ops import Call, evaluate
from eas.ops.machine import Buffer, Pointer


class Overflow(Exception):
    """Address arithmetic wrapped, or an `assume` does not hold: the kernel has no meaning."""


class Machine:
    """Memory without contents: loads give numbers that depend on the address only."""

    def __init__(self, pid: int, programs: int) -> None:
        self.pid, self.programs = pid, programs
        self.stores: list[tuple[list[int], list[int]]] = []

    def program_id(self, axis: int) -> int:
        return self.pid

    def num_programs(self, axis: int) -> int:
        return self.programs

    def load(self, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
        found = (pointer.offsets * 7919 % 1013 - 500).astype(pointer.buffer.dtype.np_compute)
        return found if mask is None else np.where(mask, found, 0 if other is None else other)

    def store(self, pointer: Pointer, value: np.ndarray, mask: Any) -> None:
        active = np.broadcast_to(True if mask is None else mask, pointer.shape)
        if active.any():
            self.stores.append((pointer.offsets[active].tolist(), value[active].tolist()))

    def allocate(self, name: str, size: int, dtype: DType) -> Pointer:
        raise NotImplementedError

    def report(self, text: str) -> None:
        pass

    def fail(self, text: str) -> None:
        raise Overflow(text)


class Run:
    """One program of a module; `witness(value, run)` sees each value as soon as it exists."""

    def __init__(self, module: IRModule, args: Mapping[str, int], pid: int, witness: Callable[[Value, Run], None]) -> None:
        self.machine = Machine(pid, pid + 3)
        self.witness = witness
        self.addresses = address_values(module)
        self.env: dict[Value, Any] = {}
        self.iterations: dict[Value, int] = {}
        for arg in module.args:
            dtype = arg.type.dtype
            if arg.is_buffer:
                start = Pointer(Buffer(arg.name, np.zeros(1, dtype.np_storage), dtype), np.zeros((), np.int64))
                self.define(arg.value, start)
            else:
                self.define(arg.value, np.asarray(args[arg.name], dtype.np_compute))
        self.region(module.body)

    def define(self, value: Value, what: Any) -> None:
        self.env[value] = what
        self.witness(value, self)

    def region(self, region: Region) -> list[Any]:
        for inst in region.body:
            self.inst(inst)
        return [self.env[v] for v in region.yields]

    def inst(self, inst: Inst) -> None:
        match inst.op.name:
            case "yield":
                return
            case "for":
                results = self.loop(inst)
            case "while":
                results = self.while_loop(inst)
            case "if":
                results = self.region(inst.regions[0 if self.env[inst.operands[0]] else 1])
            case _:
                operands = [self.env[v] for v in inst.operands]
                call = Call(tuple(v.type for v in inst.operands), tuple(v.type for v in inst.outs), dict(inst.attrs), self.machine)
                results = list(evaluate(inst.op, call, operands))
                self.check_overflow(inst, operands, results)
        for out, result in zip(inst.outs, results, strict=True):
            self.define(out, result)

    def loop(self, inst: Inst) -> list[Any]:
        (body,) = inst.regions
        start, end, step = (int(self.env[v]) for v in inst.operands[:3])
        state = [self.env[v] for v in inst.operands[3:]]
        counter = body.params[0]
        steps = range(start, end, step) if step else range(0)
        for i, position in enumerate(steps):
            self.iterations[counter] = i
            for param, what in zip(body.params, [np.asarray(position, counter.dtype.np_compute), *state], strict=True):
                self.define(param, what)
            state = self.region(body)
        self.iterations[counter] = len(steps)
        return state

    def while_loop(self, inst: Inst) -> list[Any]:
        test, body = inst.regions
        state = [self.env[v] for v in inst.operands]
        for _ in range(50):
            for param, what in zip(test.params, state, strict=True):
                self.define(param, what)
            if not self.region(test)[0]:
                return state
            for param, what in zip(body.params, state, strict=True):
                self.define(param, what)
            state = self.region(body)
        raise Overflow("too many iterations")

    def check_overflow(self, inst: Inst, operands: list[Any], results: list[Any]) -> None:
        ideal = _IDEAL.get(inst.op.name)
        if ideal is None or inst.out not in self.addresses or not inst.out.dtype.is_int:
            return
        exact = ideal(*(np.asarray(x).astype(object) for x in operands))
        if not np.array_equal(np.asarray(results[0]).astype(object), exact):
            raise Overflow(inst.op.name)

    # --- formulas in numbers ---

    def elements(self, value: Value) -> np.ndarray:
        """The numbers of a value, or the offsets of a pointer, as Python integers."""
        what = self.env[value]
        return np.asarray(what.offsets if isinstance(what, Pointer) else what).astype(object)

    def number(self, linear: Linear) -> int:
        known = {}
        for s in linear.symbols():
            if s.kind in ("iteration", "trips"):
                known[s] = self.iterations[s.value]
            else:
                elements = self.elements(s.value)
                assert np.all(elements == elements.flat[0]), f"{s} is not uniform"
                known[s] = int(elements.flat[0])
        return linear.evaluate(known)

    def numbers(self, form: Affine, shape: tuple[int, ...]) -> np.ndarray:
        total = np.full(shape, self.number(form.offset), object)
        for t in form.terms:
            if t.vector is None:
                along = np.arange(shape[t.axis]).astype(object)
            else:
                vector = np.moveaxis(self.elements(t.vector.value), t.along, -1)
                along = vector[(0,) * (vector.ndim - 1)]
                assert np.all(vector == along), f"{t.vector} varies along two axes"
            view = [1] * len(shape)
            view[t.axis] = shape[t.axis]
            total = total + self.number(t.stride) * along.reshape(view)
        return total

    def lanes(self, box: Box, shape: tuple[int, ...]) -> np.ndarray:
        result = np.full(shape, True)
        for b in box.bounds:
            view = [1] * len(shape)
            view[b.axis] = shape[b.axis]
            position = np.arange(shape[b.axis]).reshape(view)
            limit = -(-self.number(b.limit) // b.divisor)
            result = result & ((position < limit) if b.is_upper else (position >= limit))
        for g in box.guards:
            if g.positive is not None:
                result = result & (self.number(g.positive) > 0)
            elif g.value is not None:
                result = result & (bool(self.env[g.value]) != g.negated)
        for r in box.residuals:
            part = np.asarray(self.env[r.value]) != r.negated
            kept = [i for i, axis in enumerate(r.axes) if axis >= 0]
            part = np.transpose(part, [*kept, *(i for i in range(part.ndim) if i not in kept)]).reshape([part.shape[i] for i in kept])
            places = [r.axes[i] for i in kept]
            part = np.transpose(part, np.argsort(places))
            view = [1] * len(shape)
            for n, axis in zip(part.shape, sorted(places), strict=True):
                view[axis] = n
            result = result & part.reshape(view)
        return result


def _quotient(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


_IDEAL: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "floordiv": _quotient,
    "shl": lambda a, n: np.where((n >= 0) & (n < 64), a * 2 ** np.where((n >= 0) & (n < 64), n, 0), 0),
}
