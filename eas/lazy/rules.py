"""Rewrites of a graph before it is fused: equal nodes become one, and movements that follow each other."""

from __future__ import annotations

from typing import Any

from eas.lazy.build import copied
from eas.lazy.node import Node, linearise
from eas.lazy.operators import called


def _merged(node: Node) -> Node | None:
    """Two movements of one kind as one; None if the rule does not fit."""
    inner = node.src[0]
    if inner.memory is not None or inner.op is not node.op:
        return None
    name = node.op.name
    if name == "permute":
        return _moved(node, inner, tuple([inner.arg[i] for i in node.arg]))
    if name in ("reshape", "expand"):
        return _moved(node, inner, node.arg)
    if name == "slice":
        return _moved(node, inner, tuple([(start + step * first, step * stride, n) for (start, step, _), (first, stride, n) in zip(inner.arg, node.arg, strict=True)]))
    return None


def _moved(node: Node, inner: Node, arg: Any) -> Node:
    return Node(node.op, inner.src, arg, node.shape, node.dtype, node.device, node.place)


def _same(node: Node) -> Node | None:
    """A movement that moves nothing."""
    source: Node = node.src[0]
    name = node.op.name
    if node.shape != source.shape or name == "pad":
        return None
    if name == "permute" and node.arg != tuple(range(len(node.arg))):
        return None
    if name == "slice" and any(span != (0, 1, n) for span, n in zip(node.arg, source.shape, strict=True)):
        return None
    return source


def _cast_twice(node: Node) -> Node | None:
    """A cast of what already has the dtype."""
    source = node.src[0]
    return source if node.op.name == "cast" and source.dtype is node.dtype else None


def expanded(order: list[Node], roots: list[Node]) -> tuple[list[Node], list[Node]]:
    """The graph with every function as the nodes that it is made of, at the line that called it."""
    if not any(node.op.kind == "function" and node.memory is None for node in order):
        return order, roots
    became: dict[Node, Node] = {}
    for node in order:
        src = tuple([became[s] if type(s) is Node else s for s in node.src])
        if node.op.kind == "function" and node.memory is None:
            made = called(node.arg[0], src, *node.arg[1:])
            made = copied(made) if made in src else made
            _place(made, set(src), node)
            became[node] = made
        else:
            became[node] = node if src == node.src else Node(node.op, src, node.arg, node.shape, node.dtype, node.device, node.place)
            became[node].memory = node.memory
    made_roots = [became[r] for r in roots]
    return linearise(made_roots), made_roots


def _place(made: Node, known: set[Node], caller: Node) -> None:
    stack = [made]
    while stack:
        node = stack.pop()
        if node not in known:
            known.add(node)
            node.place = caller.place
            stack += [s for s in node.src if type(s) is Node]


RULES: dict[str, tuple[Any, ...]] = {"move": (_same, _merged), "map": (_cast_twice,)}
"""By kind of node: functions that give another node for the same values, or None."""


def simplify(order: list[Node], roots: list[Node]) -> tuple[list[Node], list[Node], dict[Node, Node]]:
    """(the graph in order, its roots, what each node became); sources are done before those that read them."""
    became: dict[Node, Node] = {}
    known: dict[Any, Node] = {}
    made: list[Node] = []
    for node in order:
        src = tuple([became[s] if type(s) is Node else s for s in node.src])
        now = node if src == node.src else Node(node.op, src, node.arg, node.shape, node.dtype, node.device, node.place)
        if node.memory is not None:
            now.memory = node.memory
        else:
            now = _rewritten(now)
            # Numbers may differ from run to run, so nodes that have one are never the same.
            if all(type(s) is Node for s in now.src) and now.op.kind not in ("random", "call") and now.memory is None:
                now = known.setdefault((now.op, now.arg, now.src, now.shape, now.dtype), now)
        became[node] = now
        made.append(now)
    left = list(dict.fromkeys(made))
    return left, [became[r] for r in roots], became


def _rewritten(node: Node) -> Node:
    while node.memory is None:
        found = next((f for rule in RULES.get(node.op.kind, ()) if (f := rule(node)) is not None), None)
        if found is None:
            break
        node = found
    return node
