"""Backward kernels: gradients of the functions of eas.lib by their arguments.

They read what the forward read and compute row statistics again: that is cheaper than to keep them.
A row is one block here, whatever its length.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_rows
from eas.lib.kernels import Launch, constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import row_block, strip

PARTS = 32  # programs that add up gradients of weights; fixed, so that sums do not depend on threads


@kernel
def softmax_backward_kernel(grad, y, dx, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    g, p = wide(mk.load(grad, start + cols, mask)), wide(mk.load(y, start + cols, mask))
    mk.store(dx, start + cols, p * (g - mk.sum(g * p)), mask)


@kernel
def log_softmax_backward_kernel(grad, y, dx, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    g, p = wide(mk.load(grad, start + cols, mask)), wide(mk.load(y, start + cols, mask))
    mk.store(dx, start + cols, g - mk.exp(p) * mk.sum(g), mask)


@kernel
def norm_backward_kernel(
    grad, x, weight, dx, dweight, dbias, n_rows, n_cols, eps, per_part, CENTRED: constexpr, BLOCK: constexpr
):  # fmt: skip
    """Rows of one part: their gradients, and the sums that the weight and the bias get from them."""
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    w = wide(mk.load(weight, cols, mask)) if weight is not None else 1.0
    weight_sum = mk.zeros([BLOCK], wide_dtype(x.dtype))
    bias_sum = mk.zeros([BLOCK], wide_dtype(x.dtype))
    first = mk.program_id(0) * per_part
    for row in range(first, min(first + per_part, n_rows)):
        g = wide(mk.load(grad, row * n_cols + cols, mask))
        normal = wide(mk.load(x, row * n_cols + cols, mask))
        if CENTRED:
            normal = mk.where(mask, normal - mk.sum(normal) / n_cols, 0.0)
        rstd = mk.rsqrt(mk.sum(normal * normal) / n_cols + eps)
        normal = normal * rstd
        gw = g * w
        slope = gw - normal * (mk.sum(gw * normal) / n_cols)
        if CENTRED:
            slope = slope - mk.sum(gw) / n_cols
        mk.store(dx, row * n_cols + cols, slope * rstd, mask)
        if dweight is not None:
            weight_sum += g * normal
        if dbias is not None:
            bias_sum += g
    if dweight is not None:
        mk.store(dweight, mk.program_id(0) * n_cols + cols, weight_sum, mask)
    if dbias is not None:
        mk.store(dbias, mk.program_id(0) * n_cols + cols, bias_sum, mask)


@kernel
def column_sums_kernel(parts, more_parts, sums, more_sums, n_parts, n_cols, BLOCK: constexpr):
    """Sums of the rows of one or two matrices, in their order."""
    cols = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = cols < n_cols
    if parts is not None:
        total = mk.zeros([BLOCK], wide_dtype(parts.dtype))
        for part in range(n_parts):
            total += mk.load(parts, part * n_cols + cols, mask)
        mk.store(sums, cols, total, mask)
    if more_parts is not None:
        total = mk.zeros([BLOCK], wide_dtype(more_parts.dtype))
        for part in range(n_parts):
            total += mk.load(more_parts, part * n_cols + cols, mask)
        mk.store(more_sums, cols, total, mask)


def gelu_slope(v, TANH):
    """The derivative of GELU at a traced value."""
    if TANH:
        inner = mk.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))  # sqrt(2 / pi)
        rise = 0.7978845608028654 * (1.0 + 3 * 0.044715 * v * v)
        return 0.5 * (1.0 + inner) + 0.5 * v * (1.0 - inner * inner) * rise
    # The normal distribution, and v times its density.
    return 0.5 * (1.0 + mk.erf(v * 0.7071067811865476)) + v * 0.3989422804014327 * mk.exp(-0.5 * v * v)


@kernel
def bias_gelu_backward_kernel(
    grad, x, bias, dx, dbias, n_rows, n_cols, per_part, TANH: constexpr, BLOCK: constexpr
):  # fmt: skip
    cols = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = cols < n_cols
    shift = wide(mk.load(bias, cols, mask)) if bias is not None else 0.0
    total = mk.zeros([BLOCK], wide_dtype(x.dtype))
    first = mk.program_id(1) * per_part
    for row in range(first, min(first + per_part, n_rows)):
        v = wide(mk.load(x, row * n_cols + cols, mask)) + shift
        slope = wide(mk.load(grad, row * n_cols + cols, mask)) * gelu_slope(v, TANH)
        mk.store(dx, row * n_cols + cols, slope, mask)
        total += slope
    if dbias is not None:
        mk.store(dbias, mk.program_id(1) * n_cols + cols, total, mask)


@kernel
def cross_entropy_backward_kernel(grad, x, target, norms, dx, n_cols, ignored, BLOCK: constexpr):
    row = mk.program_id(0)
    wanted = mk.load(target, row)
    weight = mk.where(wanted == ignored, 0.0, mk.load(grad, row))
    norm = mk.load(norms, row)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        share = mk.exp(wide(mk.load(x, row * n_cols + cols, mask)) - norm)
        mk.store(dx, row * n_cols + cols, (share - mk.where(cols == wanted.to(mk.i32), 1.0, 0.0)) * weight, mask)


@kernel
def swiglu_backward_kernel(grad, gate, up, dgate, dup, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    g, v, u = (wide(mk.load(p, offs, mask)) for p in (grad, gate, up))
    s = mk.sigmoid(v)
    mk.store(dgate, offs, g * u * s * (1.0 + v * (1.0 - s)), mask)
    mk.store(dup, offs, g * v * s, mask)


@kernel
def silu_backward_kernel(grad, x, dx, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    g, v = wide(mk.load(grad, offs, mask)), wide(mk.load(x, offs, mask))
    s = mk.sigmoid(v)
    mk.store(dx, offs, g * s * (1.0 + v * (1.0 - s)), mask)


# --- over arrays --------------------------------------------------------------------------------


def softmax_backward(grad: Array, y: Array, dx: Array, *, is_log: bool = False) -> None:
    """dx of (log) softmax, from its result."""
    rows, cols = check_rows(y)
    launch = log_softmax_backward_kernel if is_log else softmax_backward_kernel
    launch[rows](grad, y, dx, cols, BLOCK=mk.next_power_of_2(cols))


def parts_of(rows: int) -> tuple[int, int]:
    """How many programs add up gradients of weights over these rows, and the rows of each."""
    per_part = max(1, mk.cdiv(rows, PARTS))
    return mk.cdiv(rows, per_part), per_part


def norm_backward_launch(shape: tuple[int, int], eps: float, *, centred: bool) -> Launch:
    """Gradients of layer norm (centred) or rms norm: what follows grad, x, weight, dx and the parts of sums."""
    rows, cols = shape
    parts, per_part = parts_of(rows)
    return norm_backward_kernel, parts, (rows, cols, float(eps), per_part, centred, mk.next_power_of_2(cols))


def bias_gelu_backward_launch(shape: tuple[int, int], approximate: str) -> Launch:
    """Gradients of GELU(x + bias): what follows grad, x, bias, dx and the parts of the bias' sums."""
    rows, cols = shape
    (parts, per_part), block = parts_of(rows), strip(cols, 1024)
    return bias_gelu_backward_kernel, (mk.cdiv(cols, block), parts), (rows, cols, per_part, approximate == "tanh", block)


def column_sums_launch(n_parts: int, cols: int) -> Launch:
    """Sums of the rows of one or two matrices of parts: what follows parts, more_parts, sums, more_sums."""
    block = strip(cols, 1024)
    return column_sums_kernel, mk.cdiv(cols, block), (n_parts, cols, block)


def cross_entropy_backward(grad: Array, x: Array, target: Array, norms: Array, dx: Array, ignore_index: int) -> None:
    """dx of the losses of rows, whose gradients are in `grad`."""
    rows, cols = check_rows(x)
    cross_entropy_backward_kernel[rows](grad, x, target, norms, dx, cols, ignore_index, BLOCK=row_block(x, cols))

