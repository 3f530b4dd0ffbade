"""Turns the threads of a threadgroup into the lanes of blocks, and their divergence into masks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from eas.analysis import Producers, producers, region_definitions
from eas.analysis.range_length import range_length
from eas.analysis.uniformity import Levels, Uniformity, decision, is_uniform, uniformity
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ModeMismatch, Unsupported
from eas.base.trampoline import Definition, evaluate, every
from eas.base.types import Space, Type
from eas.ir import Inst, IRModule, Region, Trait, Value, make, walk
from eas.ir.rewriting import Rewriter, ScopedDict
from eas.passes.carry_offsets import carry_offsets
from eas.passes.check_convergence import check_convergence

_LANES = 32
_BOOL = Type(dtypes.bool_)
_I32 = Type(dtypes.i32)


def spread_threads(module: IRModule) -> IRModule:
    """The threadgroup as one program: values on which its threads may differ are blocks of lanes.

    Lanes run in lockstep, so barriers are no work. What the threads agree on stays scalar. Under
    control that they decide differently, memory is touched under a mask.

    In textbooks: if-conversion; ispc's masked execution.

        %t = tid : i32;  if %cond { store %p, %v }
        ->
        %t = arange {start=0, end=threads} : i32[threads]
        store %p, %v, %cond
    """
    if module.mode != "thread":
        raise ModeMismatch(
            "only a kernel of threads can be spread over lanes",
            hint="use mk.tid instead of mk.arange",
            loc=module.loc,
        )
    if module.attr("spread"):
        return module
    levels = uniformity(check_convergence(module))
    if any(
        _diverges(inst, levels) and any(v.type.is_pointer for v in inst.outs)
        for inst in walk(module.body)
    ):
        module = carry_offsets(module)
        levels = uniformity(module)
    body = _Spreader(levels, module.attr("threads"), _only_of_blocks(module, levels), producers(module)).region_of(module.body, (), ())
    return module.with_body(body).with_attrs(spread=True)


def spread_region(region: Region, blocks: Sequence[Value], count: int) -> tuple[list[Inst], list[Value]]:
    """What a region of scalars does for each of `count` elements of blocks, and the blocks of what it yields."""
    inside = dict.fromkeys((*region.params, *region_definitions(region)), Uniformity.VARYING)
    spreader = _Spreader(defaultdict(lambda: Uniformity.LAUNCH, inside), count, set(), {})
    with spreader.block() as body:
        results = [spreader.widen(v) for v in spreader.inline(region, blocks)]
    return body, results


def _diverges(inst: Inst, levels: Levels) -> bool:
    return decision(inst, levels) > Uniformity.PROGRAM


def _only_of_blocks(module: IRModule, levels: Levels) -> set[Value]:
    """Values that only arithmetic on which the threads differ looks at."""
    others = {
        value
        for inst in walk(module.body)
        if inst.regions or not inst.op.has(Trait.ELEMENTWISE) or any(is_uniform(levels, out) for out in inst.outs)
        for value in inst.operands
    }
    return {out for inst in walk(module.body) for out in inst.outs} - others


def _needs_an_active_lane(region: Region) -> bool:
    """Whether running the region for nobody does harm: a loop may not end, a print shows."""
    return any(inst.op.name in ("for", "while", "device_print") for inst in walk(region))


def _refuse_pointers(inst: Inst) -> None:
    """What is left after `carry_offsets`: blocks of pointers have one buffer."""
    if any(out.type.is_pointer for out in inst.outs):
        raise Unsupported(
            "threads that take different paths here get pointers into different buffers",
            hint="load on each path and choose between the loaded values",
            loc=inst.loc,
        )


class _Spreader(Rewriter):
    """Emits the spread form of instructions in program order.

    A value is a block exactly when its level is above PROGRAM. `mask` says which lanes run what is
    being emitted; lanes outside of it compute garbage that nobody looks at. Loops are entered only
    when some lane of the mask is active.
    """

    def __init__(self, levels: Levels, threads: int, only_of_blocks: set[Value], defined: Producers) -> None:
        super().__init__()
        self.defined = defined
        self.levels = levels
        self.only_of_blocks = only_of_blocks
        self.threads = threads
        self.mask: Value | None = None
        self._wide = ScopedDict[Value, Value]()
        self._some = ScopedDict[Value, Value]()

    # --- regions and values ---------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[list[Inst]]:
        """Instructions emitted inside go to a new list."""
        block: list[Inst] = []
        self._blocks.append(block)
        self._wide.push()
        self._some.push()
        yield block
        self._some.pop()
        self._wide.pop()
        self._blocks.pop()

    @contextmanager
    def under(self, mask: Value) -> Iterator[None]:
        """What is emitted inside runs on the lanes of `mask` only."""
        outer, self.mask = self.mask, mask
        yield
        self.mask = outer

    def inline(self, region: Region, params: Sequence[Value] = ()) -> list[Value]:
        """Emit the region here, with `params` for its parameters; returns what it yields."""
        self.bind(region.params, params)
        for inst in region.body[:-1]:
            self.loc = inst.loc
            self.bind(inst.outs, self.spread(inst))
        return [self.use(v) for v in region.yields]

    def region_of(self, region: Region, params: Sequence[Value], types: Sequence[Type]) -> Region:
        """The region over new parameters, with yields of the given types."""
        with self.block() as body:
            values = self.inline(region, params)
            self.append(make("yield", self.fit_all(values, types), loc=region.body[-1].loc))
        return Region(tuple(params), tuple(body))

    def bind(self, olds: Sequence[Value], news: Sequence[Value]) -> None:
        for old, new in zip(olds, news, strict=True):
            self.replaced[old] = new
            if old.hint and not new.hint:
                new.hint = old.hint

    def type_of(self, value: Value) -> Type:
        """The type of what stands for `value`."""
        if value.type.space is Space.SIMDGROUP:
            return value.type.with_shape((-(-self.threads // _LANES), 8, 8))
        return value.type if is_uniform(self.levels, value) else self.wide_type(value.type)

    def wide_type(self, type: Type) -> Type:
        return type.with_shape((self.threads,))

    def widen(self, value: Value) -> Value:
        """The value in every lane."""
        if not value.type.is_scalar:
            return value
        return self._wide.get(value) or self._wide.setdefault(
            value, self.emit("broadcast", value, shape=(self.threads,))
        )

    def fit_all(self, values: Sequence[Value], types: Sequence[Type]) -> list[Value]:
        return [v if t.is_scalar else self.widen(v) for v, t in zip(values, types, strict=True)]

    def both(self, a: Value | None, b: Value) -> Value:
        return b if a is None else self.emit("and", a, b)

    def some(self, mask: Value) -> Value:
        """Whether any lane of the mask is active, as a scalar."""
        found = self._some.get(mask)
        if found is not None:
            return found
        params = (Value(_BOOL), Value(_BOOL))
        either = make("or", params, loc=self.loc)
        combine = Region(params, (either, make("yield", either.outs, loc=self.loc)))
        return self._some.setdefault(mask, self.emit("reduce", mask, regions=[combine], axis=0))

    def choose(self, cond: Value, a: Value, b: Value) -> Value:
        """a in the lanes (matrices: simdgroups) where cond holds, else b."""
        if a is b:
            return a
        return self.emit("mma_select" if a.type.space is Space.SIMDGROUP else "select", cond, a, b)

    # --- instructions without regions -------------------------------------------------------------

    def spread(self, inst: Inst) -> Sequence[Value]:
        """Emit what stands for `inst`; returns what stands for its results."""
        special = _SPECIAL.get(inst.op.name)
        if special is not None:
            return special(self, inst)
        if "mask?" in inst.op.operands:
            return self.masked(inst)
        operands = [self.use(v) for v in inst.operands]
        if all(self.type_of(out) == out.type for out in inst.outs):
            if inst.op.has(Trait.CONVERGENT) and inst.outs:
                return operands[
                    :1
                ]  # equal lanes give each other what they have: see `across_lanes`
            return self.copy(inst, operands)
        if inst.op.has(Trait.CONVERGENT):
            return self.copy(inst, [self.widen(operands[0]), *operands[1:]])
        return self.copy(inst, [self.widen(v) for v in operands])

    def copy(self, inst: Inst, operands: Sequence[Value]) -> Sequence[Value]:
        """The same instruction over other operands; a result type in its attributes spreads too."""
        attrs = dict(inst.attrs)
        if "type" in attrs:
            attrs["type"] = self.type_of(inst.out)
        return self.append(make(inst.op.name, operands, attrs, (), inst.loc)).outs

    def masked(self, inst: Inst) -> Sequence[Value]:
        """Memory and asserts: inactive lanes must not be seen; every thread does its own atomic."""
        at = [name.strip() for name in inst.op.operands.split(",")].index("mask?")
        operands = [self.use(v) for v in inst.operands]
        is_matrix = inst.op.has(Trait.CONVERGENT)  # its addresses may stay scalar, its mask may not
        is_wide = inst.op.has(Trait.ATOMIC) or not all(v.type.is_scalar for v in operands)
        if self.mask is not None and inst.op.name == "load" and inst.out in self.only_of_blocks:
            is_wide = True  # who is active is asked per vector then, not of all lanes
        if is_wide and not is_matrix:
            operands = [self.widen(v) for v in operands]
        if self.mask is not None:
            given = operands[at] if len(operands) > at else None
            operands[at : at + 1] = [
                self.both(given, self.mask if is_wide else self.some(self.mask))
            ]
        return self.append(make(inst.op.name, operands, dict(inst.attrs), (), inst.loc)).outs

    def assume(self, inst: Inst) -> Sequence[Value]:
        """Kept only where the threads are sure to be there and to agree."""
        cond = self.use(inst.operands[0])
        return self.copy(inst, [cond]) if self.mask is None and cond.type.is_scalar else ()

    def hint(self, inst: Inst) -> Sequence[Value]:
        """A thread's hint is about its own number; of lanes, only divisibility says the same."""
        value = self.use(inst.operands[0])
        if self.mask is not None or (inst.op.name != "multiple_of" and not value.type.is_scalar):
            return [value]
        return self.copy(inst, [value])

    # --- thread ids -------------------------------------------------------------------------------

    def arange(self, start: int = 0) -> Value:
        return self.emit("arange", start=start, end=start + self.threads)

    def filled(self, n: int, dtype: DType) -> Value:
        """The number in every lane."""
        return self.const(n, self.wide_type(Type(dtype)))

    def tid(self, inst: Inst) -> Sequence[Value]:
        return [self.arange(inst["start"])]

    def local_id(self, inst: Inst) -> Sequence[Value]:
        return [self.arange() if inst["axis"] == 0 else self.const(0, _I32)]

    def lane_id(self, inst: Inst) -> Sequence[Value]:
        return [self.emit("and", self.arange(), self.filled(_LANES - 1, dtypes.i32))]

    def sg_id(self, inst: Inst) -> Sequence[Value]:
        return [self.emit("shr", self.arange(), self.filled(_LANES.bit_length() - 1, dtypes.i32))]

    # --- control ----------------------------------------------------------------------------------

    def branch(self, inst: Inst) -> Sequence[Value]:
        cond = self.use(inst.operands[0])
        types = [self.type_of(out) for out in inst.outs]
        then, other = inst.regions
        if cond.type.is_scalar:
            regions = [self.region_of(r, (), types) for r in inst.regions]
            return self.append(make("if", [cond], {}, regions, inst.loc)).outs
        _refuse_pointers(inst)
        a = self.side(then, lambda: cond, types)
        b = self.side(other, lambda: self.emit("not", cond), types)
        self.loc = inst.loc
        return [self.choose(cond, x, y) for x, y in zip(a, b, strict=True)]

    def side(
        self, region: Region, cond: Callable[[], Value], types: Sequence[Type]
    ) -> Sequence[Value]:
        """One side of a branch that some lanes take."""
        if len(region.body) == 1:
            return self.fit_all(self.inline(region), types)
        mask, loc = self.both(self.mask, cond()), self.loc
        with self.under(mask):
            if not _needs_an_active_lane(region):
                return self.fit_all(self.inline(region), types)
            active = self.some(mask)
            regions = [self.region_of(region, (), types), self.idle(types)]
            return self.append(make("if", [active], {}, regions, loc)).outs

    def idle(self, types: Sequence[Type]) -> Region:
        """Zeros for the results of a side that no lane takes."""
        with self.block() as body:
            zeros = [
                self.emit("mma_zero", type=t)
                if t.space is Space.SIMDGROUP
                else self.const(t.dtype.np_compute.type(0).item(), t)
                for t in types
            ]
            self.append(make("yield", zeros, loc=self.loc))
        return Region((), tuple(body))

    def loop(self, inst: Inst) -> Sequence[Value]:
        types = [self.type_of(out) for out in inst.outs]
        bounds = [self.use(v) for v in inst.operands[: len(inst.operands) - len(types)]]
        inits = self.fit_all([self.use(v) for v in inst.operands[len(bounds) :]], types)
        if _diverges(inst, self.levels):
            _refuse_pointers(inst)
            if not bounds:
                return self.masked_while(inst, inits)
            first = self.first_thread(inst.operands[0]) if self.steps_together(inst) else None
            return self.masked_for(inst, bounds, inits) if first is None else self.joint_for(inst, first, bounds, inits)
        regions = []
        for region in inst.regions:
            params = [Value(t) for t in (*(b.type for b in bounds[:1]), *types)]
            yields = types if region is inst.regions[-1] else [_BOOL]
            regions.append(self.region_of(region, params, yields))
        return self.append(make(inst.op.name, [*bounds, *inits], {}, regions, inst.loc)).outs

    def masked_while(self, inst: Inst, inits: Sequence[Value]) -> Sequence[Value]:
        """The test comes after the body, and once before the loop: it decides who goes on."""
        test, body = inst.regions

        def step(params: Sequence[Value]) -> tuple[list[Value], Value]:
            values = self.fit_all(self.inline(body, params), [p.type for p in params])
            return values, self.inline(test, values)[0]

        (goes_on,) = self.inline(test, inits)
        return self.while_active(inst, inits, self.both(self.mask, self.widen(goes_on)), step)

    def masked_for(
        self, inst: Inst, bounds: Sequence[Value], inits: Sequence[Value]
    ) -> Sequence[Value]:
        """A lane goes on while it has trips left: counting them cannot overflow at the end."""
        (body,) = inst.regions
        start, end, by = (self.widen(b) for b in bounds)
        trips = range_length(self.emit, start, end, by, self.literal(bounds[2]))
        nothing, one = (self.filled(n, trips.dtype) for n in (0, 1))

        def step(params: Sequence[Value]) -> tuple[list[Value], Value]:
            iv, left, *carried = params
            values = self.inline(body, [iv, *carried])
            fewer = self.emit("sub", left, one)
            return [self.emit("add", iv, by), fewer, *values], self.emit("ne", fewer, nothing)

        active = self.both(self.mask, self.emit("ne", trips, nothing))
        return self.while_active(inst, [start, trips, *inits], active, step)[2:]

    def steps_together(self, inst: Inst) -> bool:
        """Whether the threads of a range loop have one end, and go up by one step."""
        end, by = inst.operands[1:3]
        are_uniform = is_uniform(self.levels, end) and is_uniform(self.levels, by)
        return are_uniform and end.dtype == dtypes.i32 and self.is_positive(self.use(by))

    def is_positive(self, value: Value) -> bool:
        """Whether a number is known to be positive: a constant, or as many as there are threads."""
        return evaluate(self._is_positive, value)

    def _is_positive(self, value: Value) -> Definition[Value, bool]:
        inst = self.producer.get(value)
        if inst is None or inst.op.name == "num_programs":
            return inst is not None
        if inst.op.name == "mul":
            return all((yield from every(inst.operands)))
        number = self.literal(value)
        return number is not None and number > 0

    def first_thread(self, value: Value) -> Value | None:
        """What the first thread has of a number that grows by 1 from thread to thread, else None."""
        return evaluate(self._first_thread, value)

    def _first_thread(self, value: Value) -> Definition[Value, Value | None]:
        inst = self.defined.get(value)
        if inst is None or is_uniform(self.levels, value):
            return None
        if inst.op.name == "tid":
            return self.const(inst["start"], _I32)
        if inst.op.name != "add":
            return None
        a, b = inst.operands
        same, other = (a, b) if is_uniform(self.levels, a) else (b, a)
        found = (yield other) if is_uniform(self.levels, same) else None
        return None if found is None else self.emit("add", self.use(same), found)

    def joint_for(
        self, inst: Inst, first: Value, bounds: Sequence[Value], inits: Sequence[Value]
    ) -> Sequence[Value]:
        """Threads that start one behind the other and step together: one loop, that of the first of them.

        A thread is active while its own number has not reached the end: the first ones, as many as are left.
        """
        with self.block() as body:
            counter, *params = [Value(t) for t in (first.type, *(v.type for v in inits))]
            lanes = self.arange()
            far = [self.emit("cast", v, type=Type(dtypes.i64)) for v in (bounds[1], counter)]  # too far for 32 bits
            left = self.emit("min", self.emit("sub", *far), self.const(self.threads, Type(dtypes.i64)))
            active = self.emit("lt", lanes, self.widen(self.emit("cast", left, type=_I32)))
            with self.under(self.both(self.mask, active)):
                values = self.inline(inst.regions[0], [self.emit("add", self.widen(counter), lanes), *params])
            self.loc = inst.loc
            values = self.fit_all(values, [p.type for p in params])
            kept = [self.choose(active, new, old) for new, old in zip(values, params, strict=True)]
            self.append(make("yield", kept, loc=inst.loc))
        region = Region((counter, *params), tuple(body))
        return self.append(make("for", [first, *bounds[1:], *inits], {}, [region], inst.loc)).outs

    def while_active(
        self,
        inst: Inst,
        inits: Sequence[Value],
        active: Value,
        step: Callable[[Sequence[Value]], tuple[list[Value], Value]],
    ) -> Sequence[Value]:
        """Repeat `step`, which gives the next values and who goes on, until no lane is active.

        The last values are the loop's own: a lane that has left keeps what it had.
        """
        types = [v.type for v in (*inits, active)]
        with self.block() as asked:
            test_params = [Value(t) for t in types]
            self.append(make("yield", [self.some(test_params[-1])], loc=inst.loc))
        with self.block() as done:
            *params, running = [Value(t) for t in types]
            with self.under(running):
                values, goes_on = step(params)
                goes_on = self.both(running, self.widen(goes_on))
            self.loc = inst.loc
            own = len(inits) - len(inst.outs)
            values = self.fit_all(values, types[:-1])
            kept = [
                self.choose(running, new, old)
                for new, old in zip(values[own:], params[own:], strict=True)
            ]
            self.append(make("yield", [*values[:own], *kept, goes_on], loc=inst.loc))
        regions = [
            Region(tuple(test_params), tuple(asked)),
            Region((*params, running), tuple(done)),
        ]
        return self.append(make("while", [*inits, active], {}, regions, inst.loc)).outs[:-1]


_SPECIAL: dict[str, Callable[[_Spreader, Inst], Sequence[Value]]] = {
    "if": _Spreader.branch,
    "for": _Spreader.loop,
    "while": _Spreader.loop,
    "tid": _Spreader.tid,
    "local_id": _Spreader.local_id,
    "lane_id": _Spreader.lane_id,
    "sg_id": _Spreader.sg_id,
    "assume": _Spreader.assume,
    "multiple_of": _Spreader.hint,
    "max_contiguous": _Spreader.hint,
    "max_constancy": _Spreader.hint,
}
