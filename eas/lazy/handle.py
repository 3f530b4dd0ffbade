"""What a tensor is before and after it is realised: a node or memory, and views that share what their base will have."""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from eas.base.dtypes import DType, f32
from eas.base.loading import load
from eas.interop.devices import Device, device_of
from eas.interop.pending import PENDING, before_write, pin
from eas.interop.targets import DTypeLike, as_dtype
from eas.lazy import build, functions
from eas.lazy.node import STATE, Node, linearise
from eas.lazy.operators import Operators
from eas.lazy.ops import BUFFER
from eas.lazy.view import View, contiguous, moved_array, resolve

if TYPE_CHECKING:
    from eas.explain.page import Explanation

Array = NDArray[Any]
FIRST_LOOK = 1024
MAX_NODES = 1 << 17
MAX_NBYTES = 1 << 33
"""Of operands that a graph keeps alive: past either budget it is realised without being asked."""


class LazyTensor(Operators):
    """A tensor on memory, or on a node that will have some."""

    __slots__ = ("_base", "_device", "_layout", "_memory", "_node", "_origin", "_owner", "_writes", "dtype")

    _memory: Array | None
    _node: Any
    """A node while there is no memory; then a weak reference to the leaf that graphs read it by."""
    _base: Any
    """Of a view of a lazy tensor: that tensor."""
    _layout: View | None
    """Of such a view: which elements of its base it is."""
    _origin: Node | None
    """Of such a view: the node of its base that its own node was built on; a write gives the base another."""
    _writes: int
    """Writes that the graph of a tensor without memory holds."""
    _device: Device
    _owner: Any
    dtype: DType

    def _of(self, node: Node) -> Self:
        """A tensor that is not computed yet."""
        made = type(self).__new__(type(self))
        made._memory = made._base = made._owner = made._layout = made._origin = None
        made._writes = 0
        made._node = node
        made.dtype = node.dtype
        made._device = node.device
        depth = node.depth
        if depth >= FIRST_LOOK and not depth & (depth - 1):  # now and then: to count takes as long as to build
            _keep_to_budget(made)
        return made

    @classmethod
    def uniform(cls, *shape: Any, seed: int = 0, device: object = "cpu", dtype: DTypeLike = f32) -> Self:
        """Lazy random numbers in [0, 1) by counter: those of `mk.rand(seed, i)` for the i-th element."""
        return cls.__new__(cls)._of(functions.draw("uniform", _sizes(shape), seed, as_dtype(dtype), device_of(device)))

    @classmethod
    def normal(cls, *shape: Any, seed: int = 0, device: object = "cpu", dtype: DTypeLike = f32) -> Self:
        """Lazy random numbers of the standard normal distribution: those of `mk.randn(seed, i)`."""
        return cls.__new__(cls)._of(functions.draw("normal", _sizes(shape), seed, as_dtype(dtype), device_of(device)))

    def _view_of(self, node: Node) -> Self:
        """A view of a tensor that is not computed yet: it shares what that one will have, or is a copy where strides cannot say it."""
        layout = resolve(self._layout or contiguous(self._node.shape), tuple([(n.op.name, n.arg) for n in moves_from(self._node, node)]))
        made = self._of(node)
        if layout is not None:
            made._base = self if self._base is None else self._base
            made._layout, made._origin = layout, made._base._node
        return made

    def _current(self) -> Node:
        """The node of a view of a lazy tensor, which may have been written since."""
        node: Node = self._base._node
        if self._origin is not node:
            for move in moves_from(self._origin, self._node):
                node = build.move(node, move.op.name, move.arg, move.shape)
            self._node, self._origin = node, self._base._node
        return self._node  # type: ignore[no-any-return]

    def _rewritten(self, node: Node) -> None:
        """This lazy tensor has been written: it is another node from now on, and its views with it."""
        if self._node in STATE:
            STATE[node] = STATE.pop(self._node)
        self._node = node
        self._writes += 1
        if node.depth >= FIRST_LOOK and not node.depth & (node.depth - 1):
            _keep_to_budget(self)

    def _moved(self, node: Node) -> Self:
        """The tensor of a movement of this one's node: a view."""
        if self._is_lazy:
            return self._view_of(node)
        array = self._stored
        for move in moves_from(None, node):
            array = moved_array(array, (move.op.name, move.arg), self._device)
        return self._alias(array)

    def _alias(self, array: Array) -> Self:
        raise NotImplementedError

    def flip(self, *axes: Any, axis: Any = None) -> Self:
        """The elements in reverse order along axes, or along all: a view."""
        given = axes[0] if len(axes) == 1 else axes or axis
        return self._moved(functions.flip(self._lazy(), given))

    def expand(self, *shape: Any) -> Self:
        """Broadcast to a shape: a view that cannot be written. A size of -1 stays as it is."""
        node, sizes = self._lazy(), _sizes(shape)
        first = len(sizes) - len(node.shape)
        sizes = tuple([node.shape[i - first] if n == -1 and i >= first else n for i, n in enumerate(sizes)])
        return self._moved(build.expand(node, sizes))

    broadcast_to = expand

    def _lazy(self) -> Node:
        """The node that reads this tensor as it is now."""
        memory = self._memory
        if memory is None and self._is_realised:
            memory = self._stored
        if memory is None:
            return self._node if self._base is None else self._current()
        node: Node | None = self._node and self._node()
        if node is None or node.memory is not memory:
            node = Node(BUFFER, (), None, memory.shape, self.dtype, self._device)
            node.memory = memory
            self._node = pin(node)
        return node

    @property
    def _is_lazy(self) -> bool:
        return self._memory is None and not self._is_realised

    @property
    def _is_realised(self) -> bool:
        if self._memory is not None:
            return True
        return self._node.memory is not None if self._base is None else self._base._is_realised

    @property
    def _stored(self) -> Array:
        """The memory; what is not computed yet is computed now."""
        memory = self._memory
        return self._realised() if memory is None else memory

    def _realised(self) -> Array:
        node, base = self._node, self._base
        if base is not None:
            array: Array = base._stored
            for move in moves_from(self._origin, node):
                array = moved_array(array, (move.op.name, move.arg), self._device)
            self._memory = array
        else:
            if node.memory is None:
                (_realise[0] if _realise else _load_realise())([node])
            self._memory = node.memory
        self._owner = self._memory if base is None else base._owner
        self._layout = self._origin = None
        self._node = None  # the graphs that were built on it keep the node, and so a copy when somebody writes
        return self._memory

    def explain(self) -> Explanation:
        """One HTML page about how the tensor will be computed; its kernels run to be measured, the tensor stays as it is."""
        from eas.lazy.explained import explain_node

        return explain_node(self._lazy())

    def realize(self, *others: LazyTensor) -> Self:
        """Compute the tensor now, if it is not yet, and others with it, which share what they have in common; returns the tensor."""
        if others:
            together: list[LazyTensor] = [self, *others]
            nodes = [t._node for t in together if t._is_lazy and t._base is None]
            if nodes:
                (_realise[0] if _realise else _load_realise())(nodes)
            for other in others:
                other.realize()
        if self._memory is None:
            self._realised()
        return self

    def _keep_for_readers(self) -> None:
        """This memory is about to be written: graphs that were built before keep the values it has."""
        memory = self._stored
        if PENDING:
            before_write(memory)


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return tuple(map(operator.index, given))


def _keep_to_budget(tensor: LazyTensor) -> None:
    """Realise a graph that has grown past its budget, and say once where."""
    order = linearise([tensor._node])
    held = {id(n.memory): n.memory.nbytes for n in order if n.memory is not None}
    nbytes = sum(held.values())
    if len(order) <= MAX_NODES and nbytes <= MAX_NBYTES:
        return
    what = f"{len(order)} operations" if len(order) > MAX_NODES else f"{nbytes >> 20} MiB of operands"
    place = tensor._node.loc
    warnings.warn(f"a lazy graph of {what} is realised by itself at {place or 'a line that is not known'}; call .realize() in the loop that builds it", UserWarning, stacklevel=4)
    tensor.realize()


_realise: list[Any] = []


def _load_realise() -> Any:
    load("eas.lazy.realise")
    from eas.lazy.realise import realise

    _realise.append(realise)
    return realise


def moves_from(origin: Node | None, node: Node) -> list[Node]:
    """The movements from a node, or from memory, to a view of it, the nearest to the origin first."""
    moves = []
    while node is not origin and node.op is not BUFFER and node.src:
        moves.append(node)
        node = node.src[0]
    return moves[::-1]
