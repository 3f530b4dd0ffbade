"""What `EAS_DEBUG` tells of a graph that is realised: who asked for it (2), its nodes, kernels and cuts (3)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from eas.base import config
from eas.frontend.our_frames import is_internal
from eas.ir import Loc
from eas.lazy.node import Node
from eas.runtime import debug

if TYPE_CHECKING:
    from eas.lazy.plan import Plan

_MOST_LINES = 2000


def show(plan: Plan) -> None:
    """Print as much of a plan that is about to run as `EAS_DEBUG` asks for."""
    result = _label(plan.nodes[-1]) if plan.nodes else "nothing"
    how = f"in {len(plan.kernels)} kernel{'s' * (len(plan.kernels) != 1)}"
    debug.note(2, f"*** realise {result} {how}: {asked_by()}")
    if config.debug() >= 3:
        lines = list(graph_lines(plan))
        rest = len(lines) - _MOST_LINES
        debug.note(3, "\n".join([*lines[:_MOST_LINES], *([f"    ... {rest} more lines"] if rest > 0 else [])]))


def asked_by() -> str:
    """The function of a tensor that needed its values, and the user's line that called it."""
    frame: Any = sys._getframe(1)
    name = "somebody"
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            return f"{name} at {_place(Loc(((code, frame.f_lasti),)))}"
        name = f"{code.co_name}()"
        frame = frame.f_back
    return name


def graph_lines(plan: Plan) -> Iterator[str]:
    """The graph as a listing: one line per node with its sources by number, then the kernels and the cuts."""
    number = {id(node): i for i, node in enumerate(plan.nodes)}
    kernel = {id(node): i for i, step in enumerate(plan.kernels, 1) for node in step.nodes}
    yield f"*** graph of {len(plan.nodes)} nodes"
    for i, node in enumerate(plan.nodes):
        sources = ", ".join(f"%{number[id(s)]}" if isinstance(s, Node) else repr(s) for s in node.src)
        where = "in memory" if node.memory is not None else f"kernel {kernel[id(node)]}" if id(node) in kernel else "a view"
        line = f"{f'%{i}':>5} {node.op.name:<14} : {node.dtype}{list(node.shape)!s:<18} [{sources}]"
        yield f"{line:<62} {where:<10} {_place(node.loc)}".rstrip()
    for i, step in enumerate(plan.kernels, 1):
        grid = f", grid {step.grid}" if hasattr(step, "grid") else ""
        yield f"     kernel {i}: {step.name}, {step.template}{grid}, nodes {', '.join(f'%{number[id(n)]}' for n in step.nodes if id(n) in number)}"
    for cut in plan.cuts:
        reader = "the result" if cut.consumer is None else f"%{number.get(id(cut.consumer), '?')}"
        yield f"     cut %{number.get(id(cut.producer), '?')} -> {reader}: {cut.reason}"


def _label(node: Node) -> str:
    return f"{node.op.name} {node.dtype}{list(node.shape)}"


def _place(loc: Loc | None) -> str:
    if loc is None:
        return ""
    filename, line = loc.place[:2]
    return f"{os.path.basename(filename)}:{line}"
