"""Programs, blocks that come from nothing, conversions, and the shapes of blocks."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.types import Type
from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.lang import index as eas_index
from eas.frontend.lang import misc as eas_misc
from eas.frontend.lang import order as eas_order
from eas.frontend.lang import shape as eas_shape
from eas.frontend.values import cast_to, emit, is_number
from eas.triton.language import meaning
from eas.triton.language.meaning import eas_dtype, operands, refuse, to_tensor, truth
from eas.triton.language.types import unwrapped


def program_id(axis: Any) -> Block:
    """This program's position in the grid."""
    return eas_index.program_id(unwrapped(axis))


def num_programs(axis: Any) -> Block:
    """The number of programs along an axis."""
    return eas_index.num_programs(unwrapped(axis))


def arange(start: Any, end: Any) -> Block:
    """The integers start .. end-1; any length, not only powers of two."""
    return eas_index.arange(start, end)


def full(shape: Any, value: Any, dtype: Any) -> Block:
    """A block filled with a number or scalar."""
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    kind = eas_dtype(dtype)
    if is_number(value):
        value = values.plain(value)
        value = int(value) if kind.is_int else bool(value) if kind.is_bool else float(value)
        if kind.is_int and not kind.min <= value <= kind.max:
            value = (value - kind.min) % (kind.max - kind.min + 1) + kind.min
        filled = values.constant(value, kind)
    else:
        filled = cast_to(to_tensor(value), kind)
    if not extents:
        return filled
    eas_shape.need_blocks("tl.full", values.static_shape(extents))
    return values.broadcast_to(filled, values.static_shape(extents))


def zeros(shape: Any, dtype: Any) -> Block:
    """A block of zeros."""
    return full(shape, 0, dtype)


def zeros_like(input: Any) -> Block:
    """Zeros of the shape and dtype of a block."""
    return values.broadcast_to(values.constant(0, input.dtype), input.shape)


def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Block:
    """x as another dtype; floats become smaller ones by rounding to nearest even."""
    block, target = to_tensor(input), meaning.static_dtype(dtype)
    if fp_downcast_rounding is not None:
        narrows = block.dtype.is_float and target.is_floating() and target.primitive_bitwidth < block.dtype.bits
        if not narrows:
            refuse(f"fp_downcast_rounding should be set only for truncating fp conversions, not {block.dtype} to {target}", "leave it out")
        if fp_downcast_rounding == "rtz":
            return _toward_zero(block, target)
        if fp_downcast_rounding != "rtne":
            refuse(f"fp_downcast_rounding={fp_downcast_rounding!r}", "it is rtne or rtz")
    return meaning.cast(block, target, bool(bitcast))


def _toward_zero(x: Block, target: Any) -> Block:
    """Round to nearest, then one step back where that went away from zero."""
    kind = eas_dtype(target)
    bits = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32}[kind.bits]
    near = cast_to(x, kind)
    away = emit("gt", emit("abs", cast_to(near, x.dtype)), emit("abs", x))
    turned = emit("bitcast", near, type=Type(bits, near.shape))
    one = values.constant(1, bits, near.shape)
    back = emit("sub", turned, emit("select", away, one, values.constant(0, bits, near.shape)))
    return emit("bitcast", back, type=Type(kind, near.shape))


def where(condition: Any, x: Any, y: Any) -> Block:
    """x where the condition is not zero, else y, per element."""
    if any(isinstance(v, Block) and v.type.is_pointer for v in (x, y)):
        a, b = to_tensor(x), to_tensor(y)
    else:
        a, b = operands("where", x, y)
    if meaning.is_static(condition):
        return a if unwrapped(condition) else b
    chosen = truth(condition)
    shape = values.common_shape("where", [chosen.shape, a.shape, b.shape])
    return emit("select", *(values.broadcast_to(v, shape) for v in (chosen, a, b)))


# --- shapes ---------------------------------------------------------------------------------------


def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> Block:
    """The same elements in row-major order under another shape."""
    return eas_shape.reshape(to_tensor(input), *shape)


def view(input: Any, *shape: Any) -> Block:
    """The same as `reshape`."""
    return reshape(input, *shape)


def ravel(x: Any, can_reorder: Any = False) -> Block:
    """All elements as one axis."""
    return eas_shape.ravel(x)


def permute(input: Any, *dims: Any) -> Block:
    """Axis i of the result is axis dims[i] of the input."""
    return eas_shape.permute(input, *dims)


def trans(input: Any, *dims: Any) -> Block:
    """The axes permuted by dims; without them a matrix transposed, or the last two axes of more swapped."""
    if not dims and input.ndim < 2:
        refuse(f"trans invoked with a {input.ndim}-dimensional tensor", "x[:, None] makes a column")
    return eas_shape.trans(input, *dims)


def broadcast(input: Any, other: Any) -> tuple[Block, Block]:
    """Both operands in their common shape."""
    return eas_shape.broadcast(to_tensor(input), to_tensor(other))


def broadcast_to(input: Any, *shape: Any) -> Block:
    """x repeated along new leading axes and axes of extent 1."""
    return eas_shape.broadcast_to(to_tensor(input), *shape)


def expand_dims(input: Any, axis: Any) -> Block:
    """x with new axes of extent 1."""
    return eas_shape.expand_dims(to_tensor(input), axis)


def unsqueeze(x: Any, dim: Any) -> Block:
    """The same as `expand_dims`."""
    return expand_dims(x, dim)


def squeeze(x: Any, dim: Any) -> Block:
    """x without an axis of extent 1."""
    return eas_shape.squeeze(x, dim)


def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> Block:
    """Two blocks one after the other along an axis."""
    if input.shape != other.shape:
        refuse(f"tl.cat requires tensors of the same shape, got {list(input.shape)} and {list(other.shape)}", "tl.broadcast_to the smaller one")
    left, right = operands("cat", input, other)
    return eas_shape.cat(left, right, dim)


def join(a: Any, b: Any) -> Block:
    """Two blocks along a new last axis of two."""
    left, right = operands("join", a, b)
    return eas_shape.join(left, right)


def split(a: Any) -> tuple[Block, Block]:
    """The halves of a last axis of two."""
    return eas_shape.split(a)


def interleave(a: Any, b: Any) -> Block:
    """The elements of two blocks in turn along the last axis."""
    left, right = operands("interleave", a, b)
    return eas_shape.interleave(left, right)


def flip(x: Any, dim: Any = None) -> Block:
    """The elements along an axis in opposite order."""
    return eas_shape.flip(x, -1 if dim is None else dim)


def gather(src: Any, index: Any, axis: Any) -> Block:
    """src taken at integer `index` along an axis."""
    return eas_shape.gather(src, index, axis)


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Row-major positions of a matrix as column-major ones within groups of rows."""
    b = meaning.binary
    at = b("add", b("mul", i, size_j), j)
    per_group = b("mul", size_g, size_j)
    first = b("mul", b("floordiv", at, per_group), size_g)
    left = b("sub", size_i, first)
    rows = min(left, size_g) if meaning.is_static(left) and meaning.is_static(size_g) else emit("min", *operands("minimum", left, size_g))
    at = b("mod", at, per_group)
    return b("add", first, b("mod", at, rows)), b("floordiv", at, rows)


# --- order ----------------------------------------------------------------------------------------


def _last(x: Block, dim: Any) -> int:
    axis = len(x.shape) - 1 if dim is None else dim % len(x.shape)
    if axis != len(x.shape) - 1:
        refuse("only minor dimension is currently supported", "permute the axis to the end first")
    return axis


def sort(x: Any, dim: Any = None, descending: Any = False) -> Block:
    """x sorted along its last axis."""
    found: Block = eas_order.sort(x, _last(x, dim), bool(descending))
    return found


def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> Block:
    """The k largest elements of the last axis in order, or the k smallest."""
    return eas_order.topk(x, k, _last(x, dim), bool(descending))[0]


def bitonic_merge(x: Any, dim: Any = None, descending: Any = False) -> Block:
    """A bitonic sequence along the last axis, sorted."""
    return sort(x, dim, descending)


def histogram(input: Any, num_bins: Any, mask: Any = None) -> Block:
    """How often each of 0 .. num_bins-1 occurs."""
    return eas_order.histogram(input, num_bins, mask)


# --- checks, messages, hints ----------------------------------------------------------------------


def static_assert(cond: Any, msg: Any = "") -> None:
    """Refuse to compile unless a condition that is known when tracing holds."""
    eas_misc.static_assert(cond, str(msg))


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Print while tracing."""
    eas_misc.static_print(*values)


def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Print a text and values when the kernel runs."""
    eas_misc.device_print(unwrapped(prefix), *(to_tensor(x) for x in args))


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Fail the launch where a condition is false, under TRITON_DEBUG=1 or triton.jit(debug=True), as in Triton."""
    from eas.triton.knobs import runtime

    if runtime.debug:
        eas_misc.device_assert(cond if is_number(cond) else truth(cond), str(msg), None if mask is None or mask is True else truth(mask))


def debug_barrier() -> None:
    """Nothing: the memory of a program acts in program order."""


def assume(cond: Any) -> None:
    """Let the compiler rely on a condition."""
    eas_misc.assume(cond)


def _hint(name: str, x: Any, n: Any) -> Any:
    counts = tuple(n) if isinstance(n, (tuple, list)) else (n,)
    if is_number(x) or len(counts) != 1 or not isinstance(x, Block) or not x.type.is_value or not x.dtype.is_int:
        return x  # Triton's promises about pointers and about several axes are hints that nobody here needs
    return emit(name, x, n=int(counts[0]))


def multiple_of(input: Any, values: Any) -> Any:
    """The input, with a promise about divisibility."""
    return _hint("multiple_of", input, values)


def max_contiguous(input: Any, values: Any) -> Any:
    """The input, with a promise about runs of consecutive integers."""
    return _hint("max_contiguous", input, values)


def max_constancy(input: Any, values: Any) -> Any:
    """The input, with a promise about runs of equal numbers."""
    return _hint("max_constancy", input, values)


def cdiv(x: Any, div: Any) -> Any:
    """x / div of integers, rounded up."""
    b = meaning.binary
    return b("floordiv", b("add", x, b("sub", div, 1)), div)


def range(start: Any, end: Any = None, step: Any = 1, *, num_stages: Any = None, loop_unroll_factor: Any = None, disallow_acc_multi_buffer: Any = False, flatten: Any = False, warp_specialize: Any = False, disable_licm: Any = False) -> Any:
    """Python's range as a loop of the compiled kernel; the options are hints and have no effect."""
    return eas_misc.range(start, end, step)


def static_range(start: Any, end: Any = None, step: Any = 1) -> tuple[int, ...]:
    """Python's range over numbers known when tracing: the loop is unrolled."""
    return eas_misc.static_range(start, end, step)


def condition(cond: Any, disable_licm: Any = False) -> Any:
    """The condition of a while loop; the option is a hint and has no effect."""
    return cond




__all__ = [name for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")]
