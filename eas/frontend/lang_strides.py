"""How far apart the elements of a buffer argument lie: a hidden argument for every stride asked for."""

from __future__ import annotations

from typing import Any

from eas import dtypes
from eas.errors import TypeMismatch
from eas.frontend.builder import current
from eas.frontend.values import Block, static_int
from eas.types import Type


def stride(x: Any, axis: int) -> Block:
    """The step in elements along an axis of a buffer argument, which then may be strided; i32."""
    builder = current()
    number = static_int(axis, "the axis of stride")
    buffer = next((a for a in builder.args if isinstance(x, Block) and a.value is x.value), None)
    if buffer is None or not buffer.is_buffer:
        raise TypeMismatch(
            f"stride asks a buffer argument of the kernel, got {x!r}",
            hint="call it on the parameter itself: x.stride(0)",
            loc=builder.here(),
        )
    wanted = (("axis", number), ("stride_of", buffer.name))
    known = next((a for a in builder.args if a.attrs == wanted), None)
    if known is not None:
        return Block(known.value)
    name = f"{buffer.name}_stride{number}".replace("-", "m")
    taken = {a.name for a in builder.args}
    while name in taken:
        name += "_"
    return Block(builder.add_arg(name, Type(dtypes.i32), wanted))
