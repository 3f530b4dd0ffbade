"""The partition that all targets share: which block instructions run in one loop nest.

At the level of a program there are afterwards only scalars, *formulas* (index arithmetic and views,
recomputed wherever an element of them is needed), `nest`s, cuts (instructions that look across
elements and have a lowering of their own), and control flow around them. A nest ends where an
element needs another element of something the nest computes, and where memory order demands it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eas.analysis import PointerBases, made_by, users_of, with_inner
from eas.base.trampoline import Definition, evaluate, every
from eas.base.types import Shape, Space
from eas.ir import Arg, Inst, IRModule, Region, Trait, Value, make
from eas.schedule.nest.collisions import Addresses
from eas.schedule.nest.memory import NestMemory
from eas.schedule.rewrite.element_loops import is_each, wish

_TRIP = 4  # the cost of integers in memory: what costs as much is kept
_MOST_CARRIED = 16  # folds and scans of a nest: there are no registers for more


def partition(
    module: IRModule,
    in_order: Callable[[Inst], bool] = lambda _: False,
    copies: Mapping[Inst, Inst] | None = None,
    hoists: bool = False,
    one_by_one: bool = False,
    near: Collection[Inst] = (),
) -> IRModule:
    """Group block instructions into nests; the result is scheduled IR.

    `in_order` says which cuts the target can do an element per iteration, if the iterations along
    the last axis run in order; those are members of nests like any other. `copies` are loads that
    repeat another one so as not to be in its nest. With `hoists`, an instruction of another shape that
    does not need an open nest goes in front of it, so that the nest can go on afterwards. With
    `one_by_one`, an element is done by one iteration and iterations run one after another: addresses
    may be made of what their own nest computes (such `addptr`s are members), and elements are changed
    in place. `near` are loops that may be in a nest although they walk through memory.

    In textbooks: loop fusion; in Halide: compute_at.

        %a = load %p : f32[n]; %b = exp %a; store %q, %b
        ->
        nest {shape=(n,)} { %a = load %p; %b = exp %a
                            store %q, %b }
    """
    state = _Facts(module, in_order, copies or {}, hoists, one_by_one, near)
    body = _Partition(state, {}).region(module.body)
    return module.with_body(body).with_attrs(scheduled="nests")


class _Facts:
    """What the partition asks of the whole module."""

    def __init__(
        self,
        module: IRModule,
        in_order: Callable[[Inst], bool],
        copies: Mapping[Inst, Inst],
        hoists: bool,
        one_by_one: bool,
        near: Collection[Inst],
    ) -> None:
        self.one_by_one = one_by_one
        self.near = near
        self.addresses = Addresses(module)
        self.bases = PointerBases(module)
        self.copies = copies
        self.in_order = in_order
        self.hoists = hoists
        self._different: dict[Value, bool] = {}
        self.users = users_of(module)

    def repeats(self, load: Inst, members: Collection[Inst]) -> bool:
        """Whether it repeats, perhaps by way of others, a load that is one of these."""
        first = self.copies.get(load)
        return first is not None and (first in members or self.repeats(first, members))

    def _are_different(self, pointer: Value) -> bool:
        if pointer not in self._different:
            self._different[pointer] = self.addresses.are_different(pointer)
        return self._different[pointer]

    def may_alias(self, p: Value, q: Value) -> bool:
        """Whether two accesses of one nest could touch each other's elements."""
        if p is q:
            # The same address per element: program order per element is enough.
            return not self._are_different(p)
        a, b = self.bases[p], self.bases[q]
        if a is not b and self.one_by_one and (_is_in_place(a) or _is_in_place(b)) and p.dtype.nbytes == q.dtype.nbytes:
            offset = self.addresses.offset(p)
            if offset is not None and offset is self.addresses.offset(q):
                return not self._are_different(p)
        return self.may_meet(p, q)

    def may_meet(self, p: Value, q: Value) -> bool:
        """Whether two accesses could touch the same memory: the one that comes first then stays first."""
        a, b = self.bases[p], self.bases[q]
        return a is b or (p.type.space is q.type.space and not (_is_private(a) or _is_private(b)))


def _is_in_place(base: Arg | Value) -> bool:
    """Whether this buffer is apart from any other, or starts where the other starts."""
    return isinstance(base, Arg) and bool(base.attr("in_place"))


def _is_private(base: Arg | Value) -> bool:
    """Whether nothing else can point into this buffer."""
    return base.type.space is not Space.DEVICE or (isinstance(base, Arg) and bool(base.attr("noalias")))


def _is_address(inst: Inst) -> bool:
    """Whether it moves pointers, or says something of them."""
    return inst.op.name in ("addptr", "int_to_ptr") or inst.op.has(Trait.HINT)


def _is_carried(inst: Inst) -> bool:
    """Whether a member of a nest hands a number on from iteration to iteration."""
    return inst.op.name in ("reduce", "scan")


@dataclass(eq=False)
class _Group:
    """An open nest."""

    shape: Shape
    memory: NestMemory
    members: dict[Inst, None] = field(default_factory=dict)
    produced: set[Value] = field(default_factory=set)  # one per iteration
    results: set[Value] = field(default_factory=set)  # known after the nest: reductions
    derived: set[Value] = field(default_factory=set)  # formulas over both
    addresses: set[Value] = field(default_factory=set)  # those of them that are made of numbers of the nest at the same position
    pending: list[Inst] = field(default_factory=list)  # formulas over what it produces
    inner: list[Inst] = field(default_factory=list)  # those of them that nobody else needs
    num_carried: int = 0  # from one iteration to the next

    def reaches(self, value: Value) -> bool:
        """Whether something that the nest computes is behind a value."""
        return value in self.produced or value in self.results or value in self.derived


Item = Inst | _Group


class _Partition:
    def __init__(self, facts: _Facts, formulas: dict[Value, Inst]) -> None:
        self.facts = facts
        self.formulas = formulas  # deferred definitions, of enclosing regions too
        self.cheap: set[Value] = set()
        self.elements: set[Value] = set()  # blocks of control flow in a nest: known only one element at a time
        self.across: set[Value] = set()  # formulas over these
        self.replaced: dict[Value, Value] = {}

    def region(self, region: Region) -> Region:
        items = self._items(region)
        inside = {
            id(m): group
            for group in items
            if isinstance(group, _Group)
            for inst in (*group.members, *group.inner)
            for m in with_inner(inst)
        }
        body: list[Inst] = []
        for item in items:
            body += self._nest(item, inside) if isinstance(item, _Group) else [self._outside(item)]
        return Region(region.params, tuple(body))

    # --- grouping ---------------------------------------------------------------------------

    def _items(self, region: Region) -> list[Item]:
        items: list[Item] = []
        open_: list[_Group] = []  # in the order in which they will run: at most one in front of the last

        def close(count: int) -> None:
            for group in open_[:count]:
                items.append(group)
                items.extend(self._left_outside(group))
            del open_[:count]

        *body, last = region.body  # the yield may use everything
        for inst in body:
            if self._is_formula(inst):
                self._defer(inst)
                users = [g for g in open_ if any(g.reaches(v) for v in inst.operands)]
                for group in users:
                    self._derive(inst, group)
                (users[-1].pending if users else items).append(inst)
                continue
            shape = self._member_shape(inst)
            if shape is None:
                close(max((i for i, g in enumerate(open_, 1) if self._waits_for(inst, g)), default=0))
                items.append(inst)
            else:
                self._add(inst, self._group_for(inst, shape, open_, close))
        close(len(open_))
        return [*items, last]

    def _group_for(
        self, inst: Inst, shape: Shape, open_: list[_Group], close: Callable[[int], None]
    ) -> _Group:
        """The nest that an instruction joins: an open one, a new one in front of it, or a new one."""
        if open_ and open_[-1].shape == shape and self._fits(inst, open_[-1]):
            return open_[-1]
        if self.facts.hoists and open_ and not self._waits_for(inst, open_[-1]):
            if len(open_) == 2 and (open_[0].shape != shape or not self._fits(inst, open_[0])):
                close(1)
            if len(open_) == 1:
                open_.insert(0, self._new_group(shape))
            return open_[0]
        close(len(open_))
        open_.append(self._new_group(shape))
        return open_[0]

    def _new_group(self, shape: Shape) -> _Group:
        return _Group(shape, NestMemory(self.facts.bases.__getitem__, self.facts.addresses.offset))

    def _derive(self, formula: Inst, group: _Group) -> None:
        """Note a formula over what a nest computes."""
        group.derived.update(formula.outs)
        is_address = self.facts.one_by_one and _is_address(formula) and formula.out.type.is_pointer
        if is_address and all(v in group.addresses or not (v in group.derived or v in group.results) for v in formula.operands):
            group.addresses.update(formula.outs)

    def _left_outside(self, group: _Group) -> list[Inst]:
        """The formulas over a nest that somebody outside of it needs; the others are noted in it."""
        inside = {id(m) for inst in group.members for m in with_inner(inst)}
        left: list[Inst] = []
        for inst in reversed(group.pending):
            users = [u for out in inst.outs for u in self.facts.users.get(out, ())]
            if users and all(id(u) in inside for u in users):
                inside.add(id(inst))
                group.inner.append(inst)
            else:
                left.append(inst)
        group.inner.reverse()
        return left[::-1]

    def _add(self, inst: Inst, group: _Group) -> None:
        group.members[inst] = None
        group.memory.add(inst)
        group.num_carried += _is_carried(inst)
        (group.results if inst.op.has(Trait.FOLD) else group.produced).update(inst.outs)

    def _defer(self, inst: Inst) -> None:
        for out in inst.outs:
            self.formulas[out] = inst
        if all(v.type.is_scalar or v in self.cheap for v in inst.operands):
            self.cheap.update(inst.outs)
        if any(v in self.elements or v in self.across for v in inst.operands):
            self.across.update(inst.outs)

    def _is_formula(self, inst: Inst) -> bool:
        """Blocks that are recomputed per element instead of being kept."""
        if (
            not inst.op.is_pure
            or inst.regions
            or not inst.outs
            or inst.outs[0].type.is_scalar
            or inst.op.has(Trait.CUT)
        ):
            return False
        if len(inst.outs) > 1 and not inst.op.has(Trait.SHAPE):
            return False
        if inst.op.has(Trait.SHAPE) or inst.op.name in ("const", "arange"):
            return True
        if not inst.op.has(Trait.ELEMENTWISE) or not all(
            v.type.is_scalar or v in self.formulas for v in inst.operands
        ):
            return (
                _is_address(inst)
                and inst.out.type.is_pointer
            )
        return inst.out.type.is_pointer or (
            not inst.out.dtype.is_float
            and inst.op.cost < _TRIP
        )

    def _member_shape(self, inst: Inst) -> Shape | None:
        """The iteration shape of an instruction that can be in a nest."""
        if inst.op.has(Trait.CUT) and self.facts.in_order(inst):
            return inst.operands[0].shape
        if inst.op.has(Trait.CUT) or inst.op.has(Trait.CONVERGENT):
            return None
        if inst.op.has(Trait.CONTROL):
            return self._control_shape(inst)
        blocks = [v.shape for v in (*inst.operands, *inst.outs) if v.shape]
        if not blocks or inst.op.has(Trait.TERMINATOR):
            return None
        if inst.op.has(Trait.SHAPE) and inst.outs[0].type.is_scalar:
            return None  # the one element of a block
        if inst.op.name == "reduce" or not inst.outs:
            return inst.operands[0].shape or blocks[0]
        return inst.outs[0].shape

    def _control_shape(self, inst: Inst) -> Shape | None:
        """Control flow whose blocks all have one shape and whose body has no cut lives in the nest."""
        shapes = {v.shape for v in (*inst.operands, *inst.outs) if v.shape}
        if len(shapes) != 1 or any(v in self.facts.users for v in inst.outs if not v.shape):
            return None  # a scalar that is needed afterwards is computed once, not per element
        (shape,) = shapes
        inner = _Partition(self.facts, dict(self.formulas))
        inner.cheap, inner.elements, inner.across = set(self.cheap), set(self.elements), set(self.across)
        stops_alone = is_each(inst)
        walking = {v for r in inst.regions for v in r.params if not (stops_alone and v.shape)}
        walking |= {v for r in inst.regions for i in r.body for v in i.outs if not v.shape}
        asks = wish(inst)[1] if stops_alone else ()
        for region in inst.regions:
            inner.elements.update(p for p in region.params if p.shape)
            for child in region.body[:-1]:
                if child in asks:
                    continue
                if inner._is_formula(child):
                    inner._defer(child)
                    if not walking.isdisjoint(child.operands):
                        walking.update(child.outs)
                    continue
                member = inner._member_shape(child)
                scalar_only = not child.regions and not any(
                    v.shape for v in (*child.operands, *child.outs)
                )
                if (
                    child.op.name == "reduce"
                    or child.op.has(Trait.CUT)
                    or child.op.has(Trait.WRITES)
                    or (child.op.has(Trait.EFFECT) and child not in self.facts.near)
                ):
                    return None
                is_read = child.op.name == "load" and len(child.operands) == 1 and self.facts.one_by_one
                is_once = child.op.is_pure or is_read
                if not (member == shape or (scalar_only and is_once)):
                    return None
                if inner._looks_across(child.operands) or (child.op.name == "gather" and child.operands[0] in inner.elements):
                    return None
                inner.elements.update(v for v in child.outs if v.shape)
                walks = child.op.name == "load" and child.out.shape and inst not in self.facts.near
                if walks and child.operands[0] in walking:
                    return None  # memory is walked by the loop: keep its order, block after block
            if inner._looks_across(region.yields):
                return None
        return shape

    def _looks_across(self, values: Sequence[Value]) -> bool:
        """Whether one of the values is a view of a block of which only one element is at hand."""
        return any(v in self.across for v in values)

    def _fits(self, inst: Inst, group: _Group) -> bool:
        """Whether one more instruction can run in the same iteration."""
        for user in with_inner(inst):
            for i, operand in enumerate(user.operands):
                if operand in group.results:
                    return False
                if operand in group.produced:
                    is_view = user is not inst and user.op.has(Trait.SHAPE)
                    if is_view or (user.op.name == "gather" and i == 0):
                        return False  # other elements than the one at hand
                elif operand in group.derived and not (user is inst and operand in group.addresses):
                    return False
        if self.facts.repeats(inst, group.members) or (_is_carried(inst) and group.num_carried >= _MOST_CARRIED):
            return False
        return not group.memory.conflicts(inst, self.facts.may_alias)

    def _waits_for(self, inst: Inst, group: _Group) -> bool:
        """Whether an instruction outside of the nest must come after it, or is a load repeated after it."""
        if self.facts.repeats(inst, group.members):
            return True
        if any(group.reaches(operand) for user in with_inner(inst) for operand in user.operands):
            return True
        return group.memory.conflicts(inst, self.facts.may_meet)

    # --- building ---------------------------------------------------------------------------

    def _nest(self, group: _Group, inside: dict[int, _Group]) -> list[Inst]:
        defined = [out for inst in group.members for out in inst.outs]
        crossing = [
            v
            for v in defined
            if any(inside.get(id(user)) is not group for user in self.facts.users.get(v, ()))
        ]
        members = [self._substituted(inst) for inst in self._with_pointers(group)]
        region = Region((), (*members, make("yield", crossing)))
        outs = tuple(Value(v.type, v.hint) for v in crossing)
        nest = replace(
            make("nest", (), {"shape": group.shape}, [region], next(iter(group.members)).loc), outs=outs
        )
        self.replaced.update(zip(crossing, outs, strict=True))
        return [nest]

    def _with_pointers(self, group: _Group) -> list[Inst]:
        """The members, each after the addresses over values of the nest that it uses."""
        own = made_by(group.inner)
        shared = {out: inst for inst in group.pending for out in inst.outs if out not in own}
        placed: dict[Value, Value] = {}
        members: list[Inst] = []

        def place(value: Value) -> Definition[Value, Value]:
            inst = own.get(value) or shared.get(value)
            if inst is None:
                return value
            operands: list[Value] = yield from every(inst.operands)
            if value in own:
                copy = replace(inst, operands=tuple(operands))
            else:
                copy = make(inst.op.name, operands, dict(inst.attrs), (), inst.loc)
            members.append(copy)
            return copy.out

        for inst in group.members:
            operands = tuple(evaluate(place, v, placed) for v in inst.operands)
            members.append(inst if operands == inst.operands else replace(inst, operands=operands))
        return members

    def _outside(self, inst: Inst) -> Inst:
        inst = self._with_operands(inst)
        if not inst.op.has(Trait.CONTROL):
            return inst if not inst.regions else self._substituted(inst)
        regions = []
        for region in inst.regions:
            inner = _Partition(self.facts, dict(self.formulas))
            inner.cheap, inner.replaced = set(self.cheap), dict(self.replaced)
            regions.append(inner.region(region))
        return replace(inst, regions=tuple(regions))

    def _with_operands(self, inst: Inst) -> Inst:
        operands = tuple(self.replaced.get(v, v) for v in inst.operands)
        return inst if operands == inst.operands else replace(inst, operands=operands)

    def _substituted(self, inst: Inst) -> Inst:
        """The instruction over nest results, in its regions too."""
        inst = self._with_operands(inst)
        if not inst.regions:
            return inst
        regions = tuple(
            Region(r.params, tuple(self._substituted(i) for i in r.body)) for r in inst.regions
        )
        return replace(inst, regions=regions)
