"""Which nodes share a kernel: greedy from the results back to the leaves, with the reason of every cut."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from eas.lazy.node import Node, Shape
from eas.lazy.view import Moves, View, contiguous, resolve

MAX_OPS = 96
MAX_BUFFERS = 20
"""That a kernel reads; Metal has 31 places for arguments."""
RECOMPUTE = 12
"""Simple operations per element that may be done again rather than kept in memory."""
PROLOGUE = 2
"""Simple operations on an operand of a matrix product, which does them once per tile."""
ROW_PROLOGUE = 64
"""The same where they reduce the rows of the operand first (a norm, softmax): such tiles are wide, so that few of them do it."""
MAX_MOVES = 12
_FAR = 10_000


@lru_cache(maxsize=4096)
def order_through(shape: Shape, moves: Moves) -> object:
    """Equal for the same elements of a contiguous shape at the same places; None where strides cannot say it."""
    return _normal(resolve(contiguous(shape), moves))


class Request(NamedTuple):
    """A group wants a node as its domain sees it through movements, the nearest to the node first."""

    group: Group
    moves: Moves
    is_base: bool
    """Counted from the shape of the group's result, before a reduction gave the group more axes."""

    @property
    def full(self) -> Moves:
        return self.moves + self.group.lift if self.is_base else self.moves

    def order_of(self, node: Node) -> object:
        """Equal for requests that see the same elements of a node at the same places."""
        full = self.full
        return order_through(node.shape, tuple([move[:2] for move in full]) if full else ()) or full


class Group:
    """One kernel to be: its results, the axes that it walks, and those that it reduces."""

    __slots__ = ("base", "calls", "domain", "lift", "members", "outputs", "product", "prologue", "reduced", "template")

    def __init__(self, root: Node) -> None:
        self.outputs: list[tuple[Node, Moves, bool]] = [(root, (), True)]
        self.base = self.domain = root.shape
        self.lift: Moves = ()
        self.reduced: tuple[int, ...] = ()
        self.template = "map"
        self.members: dict[Node, None] = {}
        self.product: Node | None = None
        self.prologue: dict[Node, Moves] = {}
        """What the product computes of operands whose rows it reduces first, and how it sees that operand."""


class Cut(NamedTuple):
    """An edge of the graph that goes through memory, and why."""

    producer: Node
    consumer: Node | None
    reason: str


class Partition(NamedTuple):
    groups: list[Group]
    materialised: dict[Node, Group]
    cuts: list[Cut]


def partition(order: list[Node], wanted: list[Node], forced: dict[Node, str]) -> Partition:
    """Groups in the order in which they run; `forced` are nodes that must be in memory, and why."""
    _limit_buffers(order, forced)
    work = _Partition(wanted, forced, _weights(order))
    for node in reversed(order):
        if node.memory is None:
            work.visit(node)
    work.groups.reverse()
    return Partition(work.groups, work.materialised, work.cuts)


def _limit_buffers(order: list[Node], forced: dict[Node, str]) -> None:
    """From the leaves on: where a node would read more buffers than a kernel has, its largest source goes through memory."""
    reach: dict[Node, frozenset[Node]] = {}
    for node in order:
        sources = [s for s in node.src if type(s) is Node] if node.memory is None and node.op.kind != "call" else []
        found = frozenset[Node]().union(*[reach[s] for s in sources]) if len(sources) != 1 else reach[sources[0]]
        while len(found) > MAX_BUFFERS:
            largest = max(sources, key=lambda s: len(reach[s]))
            forced[largest] = f"a kernel reads at most {MAX_BUFFERS} buffers"
            reach[largest] = frozenset([largest])
            found = frozenset[Node]().union(*[reach[s] for s in sources])
        reach[node] = found if sources and node not in forced else frozenset([node])


def _weights(order: list[Node]) -> dict[Node, int]:
    """What one element costs to compute from memory, without sharing."""
    found: dict[Node, int] = {}
    for node in order:
        if node.memory is not None:
            found[node] = 0
            continue
        found[node] = min(node.op.cost + sum([found[s] for s in node.src if type(s) is Node]), _FAR)
    return found


def _distinct(node: Node, requests: list[Request]) -> list[Request]:
    """One request of each group for each order."""
    if len(requests) < 2:
        return requests
    return list({(r.group, r.order_of(node)): r for r in requests}.values())


class _Partition:
    def __init__(self, wanted: list[Node], forced: dict[Node, str], weights: dict[Node, int]) -> None:
        self.wanted = set(wanted)
        self.forced = forced
        self.weights = weights
        self.requests: dict[Node, list[Request]] = {}
        self.readers: dict[Node, Node] = {}
        self.groups: list[Group] = []
        self.materialised: dict[Node, Group] = {}
        self.cuts: list[Cut] = []

    def visit(self, node: Node) -> None:
        requests = _distinct(node, self.requests.pop(node, []))
        if node in self.wanted:
            reason = "it is asked for"
            if self._shares(node, requests):
                self._push(node, requests[0])
                self.materialised[node] = requests[0].group
                return
        else:
            reason = self._why_cut(node, requests)
        if not reason:
            for request in requests:
                if node.op.kind in ("reduce", "matmul"):
                    _take(request.group, node, request)
                self._push(node, request)
            return
        if requests:
            self.cuts.append(Cut(node, self.readers.get(node), reason))
        self._start(node)

    def _start(self, node: Node) -> None:
        group = Group(node)
        self.groups.append(group)
        self.materialised[node] = group
        request = Request(group, (), True)
        if node.op.kind in ("reduce", "matmul"):
            _take(group, node, request)
        elif node.op.kind == "scan":
            group.template, group.reduced = "scan", (node.arg,)
        elif node.op.kind == "call":
            group.template = "call"
        self._push(node, request)

    def _shares(self, node: Node, requests: list[Request]) -> bool:
        """Whether a result that is asked for can be stored by the only kernel that reads it."""
        if len(requests) != 1 or node.op.kind in ("scan", "call") or node in self.forced:
            return False
        request = requests[0]
        group = request.group
        if group.template in ("call", "scan") or len(group.outputs) >= 4 or self._why_cut(node, requests):
            return False
        is_whole = not request.full and node.shape == group.domain
        if not is_whole and not (request.is_base and not request.moves and node.shape == group.base):
            return False
        if group.template == "tile" and not request.is_base:
            return False
        if node.op.kind in ("reduce", "matmul"):
            _take(group, node, request)
        group.outputs.append((node, request.moves, request.is_base))
        return True

    def _why_cut(self, node: Node, requests: list[Request]) -> str:
        """Why a node must be in memory; empty if its readers compute it."""
        if node in self.forced:
            return self.forced[node]
        kind, groups = node.op.kind, {r.group for r in requests}
        if kind in ("scan", "call"):
            return f"{node.op.name} runs on its own"
        for group in groups:
            if group.template == "call":
                return "a library kernel reads its arguments from memory" if kind != "move" or node.op.name == "pad" else ""
            if len(group.members) >= MAX_OPS:
                return f"a kernel has at most {MAX_OPS} operations"
        if kind != "move" and (len(requests) - 1) * self.weights[node] > RECOMPUTE:
            what = "several kernels read it" if len(groups) > 1 else "one kernel reads it in several orders"
            return f"{what}, and it costs more to compute again than to keep"
        if any(len(r.moves) > MAX_MOVES for r in requests):
            return f"more than {MAX_MOVES} movements follow each other"
        if kind in ("reduce", "matmul"):
            return _why_apart(requests[0].group, node, requests[0])
        for request in requests:
            if request.group.template == "tile" and not request.is_base and kind != "move" and self.weights[node] > PROLOGUE and not _in_prologue(node, request):
                return "a matrix product reads its operands many times"
        return ""

    def _push(self, node: Node, request: Request) -> None:
        """Ask the sources of a node for what the group needs of them."""
        group = request.group
        group.members[node] = None
        for source, wanted in sources_of(node, request):
            self.requests.setdefault(source, []).append(wanted)
            self.readers[source] = node


def sources_of(node: Node, request: Request) -> list[tuple[Node, Request]]:
    """What a member of a group needs of each of its source nodes."""
    group, kind = request.group, node.op.kind
    if kind == "move":
        return [(node.src[0], Request(group, ((node.op.name, node.arg, node.src[0]), *request.moves), request.is_base))]
    if kind == "reduce" and group.template == "tile":
        return [(node.src[0], Request(group, group.prologue[node], False))]
    if kind in ("reduce", "scan"):
        return [(node.src[0], Request(group, (), kind == "scan"))]
    if kind == "matmul":
        return [(s, Request(group, moves, False)) for s, moves in zip(node.src, operand_moves(node), strict=True)]
    if kind == "call":
        return [(s, Request(group, (), False)) for s in node.src]
    if kind == "gather":
        return [(node.src[0], Request(group, (), False)), (node.src[1], request)]
    return [(s, request) for s in node.src if type(s) is Node]


def operand_moves(node: Node) -> tuple[Moves, Moves]:
    """How the operands of a matrix product are seen from [*batch, M, N, K]."""
    a, b = node.src
    *batch, m, k = a.shape
    n, rank = b.shape[-1], len(batch)
    domain = (*batch, m, n, k)
    left: Moves = (("reshape", (*batch, m, 1, k)), ("expand", domain))
    right: Moves = (("permute", (*range(rank), rank + 1, rank)), ("reshape", (*batch, 1, n, k)), ("expand", domain))
    return left, right


def _in_prologue(root: Node, request: Request) -> bool:
    """Whether a product computes this on its way through an operand, of which it has reduced the rows before."""
    group, product = request.group, request.group.product
    assert product is not None
    if root in group.prologue:
        return True
    sides = zip(product.src, operand_moves(product), (len(product.shape) - 1, len(product.shape) - 2), strict=True)
    operand, moves, inner = next(side for side in sides if request.moves[-len(side[1]) :] == side[1])
    stack, seen = [root], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or node.memory is not None or node.op.kind in ("matmul", "scan", "call"):
            continue
        seen.add(node)
        if node.op.kind == "reduce" and (node.op.name.startswith("arg") or node.src[0].shape != operand.shape or node.arg != (inner,)):
            return False
        stack += [s for s in node.src if type(s) is Node]
    reductions = [node for node in seen if node.op.kind == "reduce"]
    if not reductions or sum([node.op.cost for node in seen]) - sum([node.op.cost - 1 for node in reductions]) > ROW_PROLOGUE:
        return False
    group.prologue.update(dict.fromkeys(seen, moves))
    return True


def _squeezed(shape: Shape) -> Shape:
    return tuple([n for n in shape if n != 1])


def lift_of(node: Node) -> tuple[Shape, tuple[int, ...], Moves]:
    """(axes that a reduction or product walks, those it reduces, movements from its result to them)."""
    if node.op.kind == "matmul":
        k = node.src[0].shape[-1]
        domain = (*node.shape, k)
        return domain, (len(domain) - 1,), (("reshape", (*node.shape, 1)), ("expand", domain))
    domain = node.src[0].shape
    kept = tuple([1 if i in node.arg else n for i, n in enumerate(domain)])
    return domain, node.arg, (("reshape", kept), ("expand", domain))


def _why_apart(group: Group, node: Node, request: Request) -> str:
    """Why a reduction or a product cannot be part of a kernel that reads it."""
    domain, axes, lift = lift_of(node)
    rows = order_through(node.shape, lift)
    if node.op.kind == "reduce" and group.template in ("map", "rows") and group.domain == domain and group.reduced in ((), axes):
        if request.order_of(node) == rows:
            return ""
        if group.reduced:
            return "its rows are read in another order"
    if node.op.kind == "reduce" and node in group.prologue and request.order_of(node) == order_through(node.shape, lift + group.prologue[node]):
        return ""
    if group.reduced:
        return "one kernel reduces over one set of axes" if node.op.kind == "reduce" else "a kernel has one matrix product"
    if node.op.kind == "matmul" and _way_back(group, node, request) is not None:
        return ""
    seen = resolve(contiguous(node.shape), request.moves)
    same = seen is not None and _normal(seen) == _normal(contiguous(group.base))
    if not same or not request.is_base or _squeezed(node.shape) != _squeezed(group.base):
        return "its result is read in another order" if seen is None or len(seen.shape) else "its result is one element of many"
    if node.op.kind == "matmul" and node.shape != group.base:
        return "its result is read in another shape"
    return ""


def _way_back(group: Group, node: Node, request: Request) -> Moves | None:
    """The movements from a kernel's result to a product in it that are only read in another order: the product then writes in that order."""
    if not request.is_base or group.lift:
        return None
    back: list[Any] = []
    for name, arg, moved in reversed(request.moves):
        if name == "permute":
            back.append((name, tuple([arg.index(i) for i in range(len(arg))]), node))
        elif name == "reshape":
            back.append((name, moved.shape, node))
        else:
            return None
    return tuple(back)


def _normal(view: View | None) -> object:
    """Equal for views that are the same elements in the same order."""
    if view is None:
        return None
    steps = tuple([(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
    return steps, view.offset, view.bounds


def _take(group: Group, node: Node, request: Request) -> None:
    """Make the group walk the axes of a reduction or a product."""
    domain, axes, lift = lift_of(node)
    if group.template == "tile":
        return  # a reduction of its operands
    if group.domain == domain and group.reduced in ((), axes) and node.op.kind == "reduce" and request.order_of(node) == order_through(node.shape, lift):
        group.reduced, group.template = axes, "rows"
        return
    back = _way_back(group, node, request) if node.op.kind == "matmul" else ()
    group.lift = (*(back or ()), ("reshape", lift[0][1]), ("expand", domain))
    group.domain, group.reduced = domain, axes
    group.template, group.product = ("tile", node) if node.op.kind == "matmul" else ("rows", None)
