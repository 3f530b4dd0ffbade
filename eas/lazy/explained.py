"""The page of a tensor that is not computed yet."""

from __future__ import annotations

from eas.base import config
from eas.explain.page import Explanation
from eas.explain.plan_page import explain_plan
from eas.lazy.node import Node
from eas.lazy.realise import HOT, look_up, plan_of
from eas.runtime import get_runtime


def explain_node(node: Node) -> Explanation:
    """How a node would be realised; the kernels run on its leaves, and their results are dropped."""
    runtime = get_runtime("mps" if node.device.name == "mps" and config.backend() == "auto" else None)
    if node.memory is not None:
        return explain_plan(plan_of(node), runtime)
    plan, leaves, numbers, _ = look_up([node])
    if plan.is_empty:
        return explain_plan(plan, runtime, note="It has no elements: nothing will run.")
    note = f"So small a graph is computed by NumPy until it has run {HOT} times; then by these kernels." if plan.by_numpy else ""
    return explain_plan(plan, runtime, lambda: plan.run(leaves, numbers, is_timed=True), note)
