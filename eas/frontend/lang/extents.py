"""What a kernel asks of a buffer argument itself: a hidden argument for every stride and extent asked for."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.errors import TypeMismatch
from eas.base.types import Type
from eas.frontend.block import Block, BufferShape
from eas.frontend.builder import current
from eas.frontend.values import static_int


def stride(x: Any, axis: int) -> Block:
    """The step in elements along an axis of a buffer argument, which then may be strided; i32."""
    number = static_int(axis, "the axis of stride")
    return _hidden(x, "stride", f"stride{number}", axis=number)


def index_stride(x: Any, axis: int) -> Block:
    """A stride that i32 indices are multiplied by: arrays in which the products do not fit are refused."""
    return _hidden(x, "stride", f"stride{axis}", axis=axis, narrow=1)


def extent(x: Any, axis: int, ndim: int = 0) -> Block:
    """The extent of an axis of a buffer argument; i32. `ndim` is how many axes it must have, unless 0."""
    number = static_int(axis, "the axis of a shape")
    return _hidden(x, "shape", f"shape{number}", axis=number, **({"ndim": ndim} if ndim else {}))


def size(x: Any) -> Block:
    """How many elements a buffer argument has; i32."""
    return _hidden(x, "size", "size")


def _hidden(x: Any, kind: str, ending: str, **wanted: int) -> Block:
    builder = current()
    buffer = next((a for a in builder.args if isinstance(x, Block) and a.value is x.value), None)
    if buffer is None or not buffer.is_buffer:
        said = {"stride": "x.stride(0)", "shape": "x.shape[0]", "size": "x.numel()"}[kind]
        raise TypeMismatch(
            f"{kind} asks a buffer argument of the kernel, got {x!r}",
            hint=f"call it on the parameter itself: {said}",
            loc=builder.here(),
        )
    attrs = tuple(sorted({**wanted, f"{kind}_of": buffer.name}.items()))
    known = next((a for a in builder.args if a.attrs == attrs), None)
    if known is not None:
        return Block(known.value)
    name = f"{buffer.name}_{ending}".replace("-", "m")
    taken = {a.name for a in builder.args}
    while name in taken:
        name += "_"
    return Block(builder.add_arg(name, Type(dtypes.i32), attrs))


BufferShape.extent = staticmethod(extent)
BufferShape.size = staticmethod(size)
