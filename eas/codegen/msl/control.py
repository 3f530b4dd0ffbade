"""Loops and branches of Metal text; what a region carries lives in variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.text import ADD, ORDER, Expr, call, named, prefix
from eas.codegen.msl.types import type_name
from eas.ir import Inst, Region, Value


def _for(m: MslEmitter, inst: Inst) -> None:
    """Python's range. A last step that would leave the type must stop the loop: `addsat` does."""
    start, end, step = (_settled(m, v, wish) for v, wish in zip(inst.operands[:3], ("start", "end", "step"), strict=True))
    variables = _carry(m, inst, inst.operands[3:], inst.regions[0].params[1:])
    with m.scope.block():
        i = m.scope.claim(inst.regions[0].params[0].hint or "i")
        head = f"for ({type_name(inst.operands[0].dtype)} {i} = {start.text}; {_range(m, inst, i, end, step)})"
        _counted(m, inst, head, i, variables)


def _range(m: MslEmitter, inst: Inst, i: str, end: Expr, step: Expr) -> str:
    """Test and step of a loop."""
    last, by = m.range_of(inst.operands[1]), m.range_of(inst.operands[2])
    limits = inst.operands[0].dtype
    if by.lo > 0:
        test = f"{i} < {end.at(ADD)}"
    elif by.hi < 0:
        test = f"{i} > {end.at(ADD)}"
    else:
        up, down, s = f"{i} < {end.at(ADD)}", f"{i} > {end.at(ADD)}", step.at(ORDER + 1)
        test = f"{s} > 0 ? {up} : {s} < 0 && {down}"
    stays = (by.lo > 0 and last.hi - 1 + by.hi <= limits.max) or (by.hi < 0 and last.lo + 1 + by.lo >= limits.min)
    if stays:
        update = f"++{i}" if by.is_single and by.lo == 1 else f"--{i}" if by.is_single and by.lo == -1 else f"{i} += {step.text}"
    else:
        update = f"{i} = addsat({i}, {step.text})"
    return f"{test}; {update}"


def _loop(m: MslEmitter, inst: Inst) -> None:
    """A loop that the schedule made: from start to end in steps of `lanes`."""
    start, end = (_settled(m, v, wish) for v, wish in zip(inst.operands[:2], ("start", "end"), strict=True))
    outer, m.lanes = m.lanes, inst["lanes"]
    variables = _carry(m, inst, inst.operands[2:], inst.regions[0].params[1:])
    first, last = (m.range_of(v) for v in inst.operands[:2])
    if first.is_single and last.is_single and inst["unroll"] is not False:
        m.lines.add("#pragma unroll")
    with m.scope.block():
        i = m.scope.claim(inst.regions[0].params[0].hint or "i")
        step = f"++{i}" if m.lanes == 1 else f"{i} += {m.lanes}"
        kind = type_name(inst.operands[0].dtype)
        _counted(m, inst, f"for ({kind} {i} = {start.text}; {i} < {end.at(ADD)}; {step})", i, variables)
    m.lanes = outer


def _counted(m: MslEmitter, inst: Inst, head: str, counter: str, variables: Sequence[Expr]) -> None:
    (body,) = inst.regions
    m.exprs[body.params[0]] = named(counter)
    m.exprs.update(zip(body.params[1:], variables, strict=True))
    with m.lines.block(head):
        _assign(m, variables, m.region(body), body.yields)
    _deliver(m, inst, variables)


def _deliver(m: MslEmitter, inst: Inst, variables: Sequence[Expr]) -> None:
    """What a region carried is afterwards in the variables that it went around in."""
    m.exprs.update(zip(inst.outs, variables, strict=True))
    m.owned.update(inst.outs)


def _while(m: MslEmitter, inst: Inst) -> None:
    test, body = inst.regions
    variables = _carry(m, inst, inst.operands, body.params)
    for region in inst.regions:
        m.exprs.update(zip(region.params, variables, strict=True))
    with m.scope.block():
        with m.lines.aside() as said:
            (condition,) = m.region(test)
        with m.lines.block("while (true)" if said else f"while ({condition.text})"):
            if said:
                m.lines.replay([(f"    {text}" if text else text, loc) for text, loc in said])
                m.lines.add(f"if ({prefix('!', condition).text}) break;")
            _assign(m, variables, m.region(body), body.yields)
    _deliver(m, inst, variables)


def _if(m: MslEmitter, inst: Inst) -> None:
    """A side without statements of its own gives the variables their first values."""
    condition = m.use(inst.operands[0])
    then, other = inst.regions
    if len(then.body) == 1 and len(other.body) > 1:
        negated = prefix("!", condition) if condition.operator not in _OPPOSITE else Expr(_opposite(condition), condition.level)
        _branch(m, inst, negated, (other, then), None)
    else:
        _branch(m, inst, condition, (then, other), inst.operands[0])


_OPPOSITE = {"==": "!=", "!=": "=="}


def _opposite(condition: Expr) -> str:
    return condition.text.replace(f" {condition.operator} ", f" {_OPPOSITE[condition.operator]} ", 1)


def _branch(m: MslEmitter, inst: Inst, condition: Expr, sides: Sequence[Region], held: Value | None) -> None:
    then, other = sides
    is_one_sided = len(other.body) == 1
    firsts = [m.exprs[v] for v in other.yields] if is_one_sided else [None] * len(inst.outs)
    variables = []
    for out, first in zip(inst.outs, firsts, strict=True):
        name = m.scope.claim(out.hint or "chosen")
        lanes = m.lanes_of.get(out, 1)
        m.lines.add(f"{m.type_of(out, lanes)} {name}{f' = {_spread(m, first, out, lanes).text}' if first is not None else ''};")
        variables.append(named(name, lanes))
    if held is not None:
        m.held.append(held)
    with m.lines.aside() as said, m.scope.block():
        m.lines._depth += 1
        _assign(m, variables, m.region(then), then.yields)
        m.lines._depth -= 1
    if held is not None:
        m.held.pop()
    m.lines.loc = inst.loc or m.lines.loc
    if said or not is_one_sided:
        with m.lines.block(f"if ({condition.text})", "}" if is_one_sided else "} else {"):
            m.lines.replay(said)
    if not is_one_sided:
        m.lines._depth += 1
        with m.scope.block():
            _assign(m, variables, m.region(other), other.yields)
        m.lines._depth -= 1
        m.lines.add("}")
    _deliver(m, inst, variables)


def _settled(m: MslEmitter, value: Value, wish: str) -> Expr:
    """A bound of a loop, which is evaluated each time around: nothing dearer than a variable."""
    expr = m.use(value)
    if expr.weight <= 1 and not expr.reads:
        return expr
    if not value.hint:
        name = m.scope.claim(wish)
        m.lines.add(f"{m.type_of(value)} {name} = {expr.text};")
        m.exprs[value] = named(name)
    else:
        m.declare(value, expr)
    return m.exprs[value]


def _carry(m: MslEmitter, inst: Inst, inits: Sequence[Value], params: Sequence[Value]) -> list[Expr]:
    """One variable for each value that goes around."""
    variables = []
    for init, param, out in zip(inits, params, inst.outs, strict=True):
        first = m.use(init)
        width = m.lanes_of.get(param, 1)
        if init in m.owned and first.lanes == width and m.is_last_use(init, inst):
            variables.append(named(first.text, width, changing=True))  # nobody else looks at it any more
            continue
        name = m.scope.claim(param.hint or out.hint or init.hint or "carried")
        m.lines.add(f"{m.type_of(param, width)} {name} = {_spread(m, first, param, width).text};")
        variables.append(named(name, width, changing=True))
    return variables


def _spread(m: MslEmitter, x: Expr, value: Value, lanes: int) -> Expr:
    """An expression as a vector of so many lanes."""
    return x if x.lanes == lanes else replace(call(type_name(value.dtype, lanes), x), lanes=lanes)


def _assign(m: MslEmitter, variables: Sequence[Expr], values: Sequence[Expr], yields: Sequence[Value]) -> None:
    """All variables at once: one that another value still reads is copied first."""
    moves = [(v.text, _spread(m, x, y, v.lanes), y) for v, x, y in zip(variables, values, yields, strict=True) if v.text != x.text]
    for k, (_, x, y) in enumerate(moves):
        if x.changing & {name for name, _, _ in moves[:k]}:
            name = m.scope.claim("next")
            m.lines.add(f"{m.type_of(y, x.lanes)} {name} = {x.text};")
            moves[k] = (moves[k][0], named(name, x.lanes), y)
    for name, x, _ in moves:
        left, right = x.sides
        is_update = left == name and x.operator in _UPDATES
        m.lines.add(f"{name} {x.operator}= {right};" if is_update else f"{name} = {x.text};")


_UPDATES = frozenset(("+", "-", "*", "/", "&", "|", "^", "<<", ">>"))


def _sync(m: MslEmitter, inst: Inst) -> None:
    flags = " | ".join(f"mem_flags::mem_{space}" for space in inst["spaces"])
    m.lines.add(f"threadgroup_barrier({flags or 'mem_flags::mem_none'});")


def _barrier(m: MslEmitter, inst: Inst) -> None:
    """Threadgroup memory, and device memory where the kernel could see what it wrote there."""
    sees_own = [a.name for a in m.module.args if a.name in m.written and (a.name in m.read or not a.attr("noalias"))]
    has_memory = any(other.op.name == "alloc_tg" for other in m.module.body.body)
    flags = ["mem_flags::mem_threadgroup"] if has_memory or not sees_own else []
    flags += ["mem_flags::mem_device"] if sees_own else []
    m.lines.add(f"threadgroup_barrier({' | '.join(flags)});")


def _fence(m: MslEmitter, inst: Inst) -> None:
    """Metal's fences have no weaker order; its atomics have none at all before Metal 4.1."""
    m.lines.add("atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);")


def _assume(m: MslEmitter, inst: Inst) -> None:
    """A promise to our analyses; the Metal compiler gets nothing from it."""


CONTROL: dict[str, Callable[[MslEmitter, Inst], None]] = {
    "for": _for, "while": _while, "if": _if, "loop": _loop, "barrier": _barrier, "sync": _sync, "fence": _fence, "assume": _assume,
}  # fmt: skip
