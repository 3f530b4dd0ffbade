"""Realising: the structure of a graph as a key, a plan per key, and its replay on the leaves of this graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from eas.base import config
from eas.base.backends import runs_metal
from eas.base.dtypes import DType
from eas.base.loading import load
from eas.base.locks import new_lock
from eas.base.recent import Recent
from eas.lazy.build import copied
from eas.lazy.lower import is_fixed, memory_view
from eas.lazy.node import STATE, Node, linearise
from eas.lazy.plan import Plan, make_plan
from eas.lazy.rules import expanded, simplify
from eas.lazy.view import apply
from eas.runtime.launch_settings import setting_now

MAX_PLANS = 4096
HOT = 3
"""Runs of a small plan before its kernels are compiled."""
SMALL = 4096
"""Elements of the largest node of a graph that NumPy computes until it is hot."""


class Found(NamedTuple):
    """A plan, and what this graph gives it."""

    plan: Plan
    leaves: list[Any]
    numbers: list[Any]
    order: list[Node]


_plans: Recent[Any, Plan] = Recent()
_lock = new_lock()


def look_up(roots: list[Node]) -> Found:
    """The plan of a graph of this structure; made if there is none."""
    order: list[Node] = []
    index: dict[Node, int] = {}
    key: list[Any] = [setting_now(config.backend)]
    leaves: list[Any] = []
    numbers: list[Any] = []
    stack = roots[::-1]
    while stack:
        node = stack[-1]
        if node in index:
            stack.pop()
            continue
        memory = node.memory
        if memory is not None:
            leaves.append(memory)
            key.append((node.dtype.name, memory.shape, memory.strides, node.device.name, node.device.copy is None))
        else:
            before, given = len(stack), []
            for source in node.src:
                if type(source) is Node:
                    at = index.get(source)
                    if at is None:
                        stack.append(source)
                    else:
                        given.append(at)
            if len(stack) > before:
                continue
            arg = node.arg
            # By name: a dtype is hashed in Python.
            key.append((node.op, arg.name if type(arg) is DType else arg, (node.shape, node.device.name, node.device.copy is None) if not given else None, node.dtype.name, *given))
            if len(given) < len(node.src):
                for i, source in enumerate(node.src):
                    if type(source) is not Node:
                        dtype = node.arg if node.op.kind == "map" else node.dtype
                        fixed = node.op.kind == "map" and is_fixed(source, dtype)
                        key.append((i, source, type(source)) if fixed else i)
                        numbers.append(source)
        index[node] = len(order)
        order.append(node)
        stack.pop()
    key.append(tuple([index[root] for root in roots]))
    whole = tuple(key)
    plan = _plans.get(whole)
    if plan is None:
        plan = _made(whole, order, roots)
    return Found(plan, leaves, numbers, order)


class _Layout(NamedTuple):
    """What a plan remembers of the memory of a leaf: the plan outlives it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    is_contiguous: bool


def _copied(order: list[Node]) -> list[Node]:
    """The same graph on layouts."""
    made: dict[Node, Node] = {}
    for node in order:
        src = tuple([made[s] if type(s) is Node else s for s in node.src])
        copy = made[node] = Node(node.op, src, node.arg, node.shape, node.dtype, node.device, node.place)
        if node.memory is not None:
            array = node.memory
            copy.memory = _Layout(array.shape, array.strides, array.itemsize, array.flags.c_contiguous)
    return list(made.values())


def _made(key: Any, given: list[Node], wanted: list[Node]) -> Plan:
    order = _copied(given)
    at = {node: i for i, node in enumerate(given)}
    roots = [order[at[root]] for root in wanted]
    places: dict[tuple[Node, int], int] = {}
    for node in order:
        if node.memory is None:
            for i, source in enumerate(node.src):
                if type(source) is not Node:
                    places[node, i] = len(places)
    leaves = [node for node in order if node.memory is not None]
    order, roots = expanded(order, roots)
    order, roots, became = simplify(order, roots)
    leaves = [became.get(leaf, leaf) for leaf in leaves]
    roots = [root if root.memory is None else copied(root) for root in roots]
    places = {(became[node], i): at for (node, i), at in places.items() if node in became}
    forced = _with_copies(order)
    order = linearise(roots)
    is_metal = runs_metal(key[0]) or (key[0] == "auto" and roots[0].device.name == "mps")
    with _lock:
        plan = _plans.get(key)
        if plan is None:
            plan = _empty_plan(order, roots, leaves) or make_plan(order, roots, leaves, places, is_metal, forced)
            plan.by_numpy = plan.is_empty or (key[0] in ("auto", "cpu") and roots[0].device.name == "cpu" and _is_small(order))
            _plans.add(key, plan, MAX_PLANS)
    return plan


def _with_copies(order: list[Node]) -> dict[Node, str]:
    """Put a copy before each reshape of memory whose strides cannot have that shape; nodes that must be in memory, and why."""
    forced: dict[Node, str] = {}
    for node in order:
        if node.op.name == "reshape" and node.memory is None and node.src[0].memory is not None:
            leaf = node.src[0]
            if apply(memory_view(leaf.memory), ("reshape", node.arg)) is None:
                copy = copied(leaf)
                node.src = (copy,)
                forced[copy] = "a reshape of strided memory needs a copy"
    return forced


def _empty_plan(order: list[Node], roots: list[Node], leaves: list[Node]) -> Plan | None:
    """The plan of a graph in which some node has no elements: there is nothing to walk, and NumPy knows the rest."""
    if all(0 not in node.shape for node in order):
        return None
    plan = Plan(order, roots, [], [], {n: i for i, n in enumerate(dict.fromkeys([*leaves, *roots]))}, len(leaves))
    plan.is_empty = True
    return plan


def _is_small(order: list[Node]) -> bool:
    from eas.lazy.reference import CAN

    return all(node.size <= SMALL and (node.memory is not None or node.op.kind in CAN) for node in order)


def _with_state(roots: list[Node]) -> list[Node]:
    """Also the tensors that were written in memory, and that these need: what they are now is computed once."""
    kept = [node for node in linearise(roots) if node.memory is None and node not in roots and (owner := STATE.get(node)) is not None and owner() is not None]
    return roots + kept


def realise(roots: list[Node]) -> None:
    """Afterwards every root is in memory."""
    if len(roots) > 1 or roots[0].memory is not None:
        roots = [r for r in dict.fromkeys(roots) if r.memory is None]
        if not roots:
            return
    if STATE.data:  # type: ignore[attr-defined]  # its own truth is a Python function
        roots = _with_state(roots)
    plan, leaves, numbers, order = look_up(roots)
    level = setting_now(config.debug)
    if level >= 2:
        load("eas.lazy.show")
        from eas.lazy.show import show

        show(plan)
    if plan.by_numpy and (plan.is_empty or (plan.runs < HOT and not level)):
        from eas.lazy.reference import evaluate

        plan.runs += 1
        made = evaluate(*expanded(order, roots))
    else:
        made = plan.run(leaves, numbers)
    if len(made) > 1:  # equal expressions are one kernel, but tensors of their own
        made = [m if all(m is not before for before in made[:i]) else m.copy() for i, m in enumerate(made)]
    for root, memory in zip(roots, made, strict=True):
        root.become(memory)


def plan_of(tensor: Any) -> Plan:
    """The plan by which a tensor that is not realised would be; nothing runs."""
    node = tensor if isinstance(tensor, Node) else tensor._lazy()
    return look_up(_with_state([node])).plan if node.memory is None else Plan([node], [node], [], [], {node: 0}, 1)
