"""The functions of eas.lib that have gradients, as operators of torch (`torch.ops.eas.*`)."""

from __future__ import annotations

import math
import threading
from typing import Any, Literal

import torch
from torch import Tensor

from eas.base.errors import ArgumentError
from eas.lib import activations, gradients, grouped_attention
from eas.lib.activations import bias_gelu_launch
from eas.lib.arrays import check_rows, check_vector, need_float
from eas.lib.faces.replay import Replays
from eas.lib.faces.torch_arrays import as_array, as_torch
from eas.lib.kernels import Launch
from eas.lib.log_softmax import log_softmax as _log_softmax
from eas.lib.log_softmax import row_losses
from eas.lib.norms import layer_norm_launch, rms_norm_launch
from eas.lib.sizes import flat_block
from eas.lib.softmax import softmax as _softmax
from eas.torch.op import torch_op
from eas.torch.quick import quick

_MAX_SCRATCH = 32  # shapes of which a thread keeps memory for parts of sums: 32 rows each
_NUMPY_HAS = {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.bool}
# What the schemas are made of; torch has no types for mypy here.
Two = tuple[Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]
Four = tuple[Tensor, Tensor, Tensor, Tensor]


def memory(x: Any) -> Any:
    """The memory of a tensor inside of an operator, where it is a plain tensor or None."""
    if x is None:
        return None
    if x.dtype in _NUMPY_HAS and x.is_cpu and (x.data_ptr() or not x.numel()):
        return x.detach().numpy()
    return as_array(x.detach())


def like(x: Tensor) -> Tensor:
    """New contiguous memory of the shape and dtype of `x`."""
    if x.layout is not torch.strided:
        as_array(x)  # says what is wrong with it
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def or_empty(gradient: Tensor | None, some: Tensor) -> Tensor:
    """The gradient, or no elements: an operator cannot return None."""
    return some.new_empty(0) if gradient is None else gradient


def flat(x: Tensor | None) -> Any:
    """The memory of a tensor in row-major order; torch copies strided ones faster than a launch would."""
    return None if x is None else memory(x.contiguous())


# --- softmax ------------------------------------------------------------------------------------


def _softmax_backward(grad: Tensor, out: Tensor) -> Tensor:
    dx = like(out)
    gradients.softmax_backward(flat(grad), flat(out), memory(dx))
    return dx


@torch_op("eas::softmax", backward=_softmax_backward, vmap="leading", autocast=torch.float32)
def softmax_op(x: Tensor) -> Tensor:
    out = like(x)
    _softmax(flat(x), memory(out))
    return out


def _log_softmax_backward(grad: Tensor, out: Tensor) -> Tensor:
    dx = like(out)
    gradients.softmax_backward(flat(grad), flat(out), memory(dx), is_log=True)
    return dx


@torch_op("eas::log_softmax", backward=_log_softmax_backward, vmap="leading", autocast=torch.float32)
def log_softmax_op(x: Tensor) -> Tensor:
    out = like(x)
    _log_softmax(flat(x), memory(out))
    return out


# --- norms --------------------------------------------------------------------------------------


def rows_of(x: Tensor, **vectors: Tensor | None) -> tuple[int, int]:
    """(rows, columns) of x, whose rows are as long as the vectors."""
    n = x.numel()
    if x.dim() and x.shape[-1] and n < 2**31:
        last = x.shape[-1:]
        for v in vectors.values():
            if v is not None and v.shape != last:
                break
        else:
            return n // last[0], last[0]
    _, cols = check_rows(memory(x))
    for name, v in vectors.items():
        if v is not None:
            check_vector(memory(v), cols, name)
    raise AssertionError("unreachable")


def need_floats(x: Tensor, name: str) -> None:
    """Refuse integers; what has no plain memory, quantised tensors for example, is refused for that."""
    if not x.is_floating_point():
        need_float(memory(x), name)


def whole(x: Tensor | None) -> Any:
    """A tensor in row-major order; kernels take torch tensors of torch's own classes as they are."""
    if x is None or x.is_contiguous():
        return x
    if x.layout is not torch.strided:
        as_array(x)  # says what is wrong with it
    return x.contiguous()


def _layer_norm_launch(inputs: Any, eps: float) -> Launch:
    x, weight, bias = inputs
    need_floats(x, "layer_norm")
    return layer_norm_launch(x, rows_of(x, weight=weight, bias=bias), eps)


def _rms_norm_launch(inputs: Any, eps: float) -> Launch:
    x, weight = inputs
    need_floats(x, "rms_norm")
    return rms_norm_launch(x, rows_of(x, weight=weight), eps)


_layer_norm = Replays(_layer_norm_launch)
_rms_norm = Replays(_rms_norm_launch)
_layer_norm_grads = Replays(lambda inputs, params: gradients.norm_backward_launch(rows_of(inputs[1]), params[0], centred=True))
_rms_norm_grads = Replays(lambda inputs, params: gradients.norm_backward_launch(rows_of(inputs[1]), params[0], centred=False))
_column_sums = Replays(lambda inputs, params: gradients.column_sums_launch(*params[0]))


def _norm_backward(grads: Replays, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Gradients of x, weight and bias; those of what is absent are None."""
    x = whole(x)
    dx, weight_parts, bias_parts = grads(
        (whole(grad), x, whole(weight)), (eps, bias is None),
        lambda: (torch.empty_like(x), _parts(x, weight, 0), _parts(x, bias, 1)),
    )  # fmt: skip
    return dx, *_summed(weight_parts, bias_parts, weight, bias)


_scratch = threading.local()


def _parts(x: Tensor, vector: Tensor | None, which: int) -> Any:
    """Memory for the parts of sums over the rows of x, which the next launch of this thread reads; None for no vector."""
    if vector is None:
        return None
    kept: dict[Any, Any] = _scratch.__dict__.setdefault("parts", {})
    key = (which, x.shape, x.dtype, x.device)
    if key not in kept:
        if len(kept) >= _MAX_SCRATCH:
            kept.clear()
        cols = x.shape[-1]
        kept[key] = x.new_empty((gradients.parts_of(x.numel() // cols if cols else 0)[0], cols), dtype=_wide(x))
    return kept[key]


def _summed(parts: Any, more_parts: Any, vector: Any, more: Any) -> Any:
    """The sums of the rows of one or two matrices, as vectors like those given."""
    some = more_parts if parts is None else parts
    if some is None:
        return None, None
    params = some.shape, None if vector is None else vector.dtype, None if more is None else more.dtype
    return _column_sums((parts, more_parts), params, lambda: (None if vector is None else like(vector), None if more is None else like(more)))


def _layer_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Three:
    dx, dweight, dbias = _norm_backward(_layer_norm_grads, grad, x, weight, bias, eps)
    return dx, or_empty(dweight, x), or_empty(dbias, x)


@torch_op("eas::layer_norm", backward=_layer_norm_backward, vmap="leading", autocast=torch.float32)
def layer_norm_op(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    x = whole(x)
    return _layer_norm((x, whole(weight), whole(bias)), eps, lambda: (like(x),))[0]


def _rms_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, eps: float) -> Two:
    dx, dweight, _ = _norm_backward(_rms_norm_grads, grad, x, weight, None, eps)
    return dx, or_empty(dweight, x)


@torch_op("eas::rms_norm", backward=_rms_norm_backward, vmap="leading", autocast=torch.float32)
def rms_norm_op(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    x = whole(x)
    return _rms_norm((x, whole(weight)), eps, lambda: (like(x),))[0]


# --- activations --------------------------------------------------------------------------------


def _bias_gelu_launch(inputs: Any, approximate: str) -> Launch:
    x, bias = inputs
    need_floats(x, "bias_gelu")
    if approximate not in ("none", "tanh"):
        activations.bias_gelu(memory(x), None, approximate=approximate)  # type: ignore[arg-type]  # says what is wrong
    return bias_gelu_launch(x, rows_of(x, bias=bias), approximate)


_bias_gelu = Replays(_bias_gelu_launch)
_bias_gelu_grads = Replays(lambda inputs, approximate: gradients.bias_gelu_backward_launch(rows_of(inputs[1]), approximate))


def _bias_gelu_backward(grad: Tensor, x: Tensor, bias: Tensor | None, approximate: str) -> Two:
    x = whole(x)
    dx, parts = _bias_gelu_grads((whole(grad), x, whole(bias)), approximate, lambda: (torch.empty_like(x), _parts(x, bias, 0)))
    return dx, or_empty(_summed(parts, None, bias, None)[0], x)


@torch_op("eas::bias_gelu", backward=_bias_gelu_backward, vmap="leading")
def bias_gelu_op(x: Tensor, bias: Tensor | None, approximate: str) -> Tensor:
    x = whole(x)
    return _bias_gelu((x, whole(bias)), approximate, lambda: (like(x),))[0]


def _silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    dx = like(x)
    gradients.silu_backward_kernel(flat(grad), flat(x), memory(dx), x.numel(), BLOCK=flat_block(x.numel()))
    return dx


@torch_op("eas::silu", backward=_silu_backward, vmap="elementwise")
def silu_op(x: Tensor) -> Tensor:
    out = like(x)
    activations.silu(flat(x), memory(out))
    return out


def _swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> Two:
    dgate, dup = like(gate), like(up)
    n = gate.numel()
    gradients.swiglu_backward_kernel(flat(grad), flat(gate), flat(up), memory(dgate), memory(dup), n, BLOCK=flat_block(n))
    return dgate, dup


@torch_op("eas::swiglu", backward=_swiglu_backward, vmap="elementwise")
def swiglu_op(gate: Tensor, up: Tensor) -> Tensor:
    out = like(gate)
    activations.swiglu(flat(gate), flat(up), memory(out))
    return out


# --- cross entropy ------------------------------------------------------------------------------


def _wide(x: Tensor) -> Any:
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _losses_fake(x: Tensor, target: Tensor, ignore_index: int) -> Two:
    return x.new_empty(x.shape[:-1], dtype=_wide(x)), x.new_empty(x.shape[:-1], dtype=_wide(x))


def _losses_backward(grad0: Tensor, x: Tensor, target: Tensor, out1: Tensor, ignore_index: int) -> Tensor:
    dx = like(x)
    gradients.cross_entropy_backward(flat(grad0), flat(x), flat(target), flat(out1), memory(dx), ignore_index)
    return dx


@torch_op("eas::cross_entropy_losses", fake=_losses_fake, backward=_losses_backward, differentiates=("x",), autocast=torch.float32)
def losses_op(x: Tensor, target: Tensor, ignore_index: int) -> Two:
    losses, norms = row_losses(flat(x), flat(target), ignore_index)
    return as_torch(losses), as_torch(norms)


# --- attention ----------------------------------------------------------------------------------


def _attention_fake(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, learns_mask: bool = False) -> Two:
    *batch, heads, n, _ = q.shape
    # Heads lie side by side, so that putting them together again is a view.
    out = q.new_empty((*batch, n, heads, v.shape[-1])).transpose(-3, -2)
    return out, q.new_empty(q.shape[:-1], dtype=_wide(q))


def side_by_side(x: Tensor) -> Tensor:
    """New memory for [..., heads, n, D] in which the heads of a position are neighbours."""
    *batch, heads, n, d = x.shape
    return x.new_empty((*batch, n, heads, d)).transpose(-3, -2)


def by_head(x: Tensor) -> Tensor:
    """[batch, heads, n, D] of a tensor with any number of leading axes."""
    return x if x.dim() == 4 else x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def mask_by_head(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """A mask as [batch, heads, n, m], with strides of 0 where it is the same."""
    if mask is None:
        return None
    shape = (*q.shape[:-1], k.shape[-2])
    if mask.dim() > len(shape) or mask.layout is not torch.strided or not (mask.is_floating_point() or mask.dtype is torch.bool):
        grouped_attention.spread_mask(memory(mask), shape)
    try:
        return by_head(mask.expand(shape))
    except RuntimeError:
        raise ArgumentError(f"a mask of shape {tuple(mask.shape)} does not broadcast to {shape}") from None


def _check_attention(q: Tensor, k: Tensor, v: Tensor) -> None:
    grouped_attention.check_shapes(memory(q), memory(k), memory(v))


def _attend_launch(inputs: Any, params: Any) -> Launch:
    q, k, v, _ = inputs
    _check_attention(q, k, v)
    return grouped_attention.attend_launch(q, q.shape, k.shape, v.shape, *params)


_attend = Replays(_attend_launch)
_attention_grads = Replays(lambda inputs, params: grouped_attention.backward_launch(inputs[0], *(x.shape for x in inputs[:3]), *params[:2]))


def _attention_backward_fake(grad0: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out0: Tensor, out1: Tensor, causal: bool, scale: float, learns_mask: bool) -> Four:
    return side_by_side(q), side_by_side(k), side_by_side(v), q.new_empty(0) if mask is None or not learns_mask else like(mask)


def _attention_backward(grad0: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out0: Tensor, out1: Tensor, causal: bool, scale: float, learns_mask: bool) -> Four:
    made = side_by_side(q), side_by_side(k), side_by_side(v)
    wide_mask = mask_by_head(mask, q, k)
    # What the causal kernel does not visit gets no gradient.
    slopes = None if wide_mask is None or not learns_mask else wide_mask.new_zeros(wide_mask.shape, dtype=_wide(q))
    if slopes is not None and slopes.numel() >= 2**31:
        raise ArgumentError(f"the gradient of a mask of {tuple(slopes.shape)} has too many elements: offsets are 32 bits", hint="split the batch, or pass mask.detach()")
    inputs = (*map(by_head, (q, k, v)), wide_mask, by_head(out0), out1, by_head(grad0))
    _attention_grads(inputs, (causal, scale, learns_mask), lambda: (*map(by_head, made), slopes))
    if mask is None or slopes is None:
        return *made, q.new_empty(0)
    return *made, slopes.reshape(*q.shape[:-1], k.shape[-2]).sum_to_size(mask.shape).to(mask.dtype)


@torch_op("eas::attention", fake=_attention_fake, backward=_attention_backward, backward_fake=_attention_backward_fake, differentiates=("q", "k", "v", "mask"))
def attention_op(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, learns_mask: bool = False) -> Two:
    if not q.dim() == k.dim() == v.dim() == 4:
        _check_attention(q, k, v)
    made: Any = None

    def make() -> Any:
        nonlocal made
        made = _attention_fake(q, k, v, mask, causal, scale, learns_mask)
        return by_head(made[0]), made[1]

    _attend((*map(by_head, (q, k, v)), mask_by_head(mask, q, k)), (causal, scale), make)
    out, norms = made
    return out, norms


def _packed_fake(qkv: Tensor, causal: bool, scale: float) -> Two:
    *batch, n, _, heads, d = qkv.shape
    return qkv.new_empty((*batch, n, heads, d)), qkv.new_empty((*batch, heads, n), dtype=_wide(qkv))


def _packed_launch(inputs: Any, params: Any) -> Launch:
    (qkv,) = inputs
    grouped_attention.check_packed(memory(qkv))
    *batch, n, _, heads, d = qkv.shape
    shape = (math.prod(batch), heads, n, d)
    return grouped_attention.attend_launch(qkv, shape, shape, shape, *params)


def _packed_grads_launch(inputs: Any, params: Any) -> Launch:
    *batch, n, _, heads, d = inputs[0].shape
    shape = (math.prod(batch), heads, n, d)
    return grouped_attention.backward_launch(inputs[0], shape, shape, shape, *params)


_packed = Replays(_packed_launch)
_packed_grads = Replays(_packed_grads_launch)


def _packed_views(inputs: Any, made: Any) -> Any:
    (qkv,), (out, norms) = inputs, made
    return *_thirds(qkv), None, _by_place(out), norms


def _packed_grads_views(inputs: Any, made: Any) -> Any:
    qkv, out, norms, grad = inputs
    return *_thirds(qkv), None, _by_place(out), norms, _by_place(grad), *_thirds(made[0]), None


def _thirds(qkv: Tensor) -> Any:
    """Queries, keys and values as [batch, heads, n, D]."""
    return [x.transpose(1, 2) for x in qkv.reshape(math.prod(qkv.shape[:-4]), *qkv.shape[-4:]).unbind(2)]


def _by_place(x: Tensor) -> Tensor:
    """[batch, heads, n, D] of [..., n, heads, D]."""
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:]).transpose(1, 2)


def _packed_backward(grad0: Tensor, qkv: Tensor, out0: Tensor, out1: Tensor, causal: bool, scale: float) -> Tensor:
    qkv = whole(qkv)
    return _packed_grads((qkv, out0, out1, whole(grad0)), (causal, scale), lambda: (torch.empty_like(qkv),), _packed_grads_views)[0]


@torch_op("eas::attention_qkv", fake=_packed_fake, backward=_packed_backward)
def attention_qkv_op(qkv: Tensor, causal: bool, scale: float) -> Two:
    if qkv.dim() < 4:
        grouped_attention.check_packed(memory(qkv))
    qkv = whole(qkv)
    out, norms = _packed((qkv,), (causal, scale), lambda: _packed_fake(qkv, causal, scale), _packed_views)
    return out, norms


# --- what eas.lib calls -------------------------------------------------------------------------

_softmax_call = quick(softmax_op)
_log_softmax_call = quick(log_softmax_op)
_layer_norm_call = quick(layer_norm_op)
_rms_norm_call = quick(rms_norm_op)
_bias_gelu_call = quick(bias_gelu_op)
_silu_call = quick(silu_op)
_swiglu_call = quick(swiglu_op)
_losses_call = quick(losses_op)
_attention_call = quick(attention_op)
_packed_call = quick(attention_qkv_op)


def softmax(x: Tensor, *, block: int | None = None) -> Tensor:
    return _softmax_call(x)


def log_softmax(x: Tensor, *, block: int | None = None) -> Tensor:
    return _log_softmax_call(x)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *, block: int | None = None) -> Tensor:
    return _layer_norm_call(x, weight, bias, eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-5, *, block: int | None = None) -> Tensor:
    return _rms_norm_call(x, weight, eps)


def bias_gelu(x: Tensor, bias: Tensor | None = None, *, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    return _bias_gelu_call(x, bias, approximate)


def gelu(x: Tensor, a: float = 1.0, b: float = 0.0, *, approximate: Literal["none", "tanh"] = "none", block: int | None = None) -> Tensor:
    given = x if (a, b) == (1.0, 0.0) else x * a + b
    if given.dim() == 0 or given.numel() == 0:
        return _bias_gelu_call(given.reshape(-1, 1), None, approximate).reshape(given.shape)
    return _bias_gelu_call(given, None, approximate)


def silu(x: Tensor, *, block: int | None = None) -> Tensor:
    return _silu_call(x)


def swiglu(gate: Tensor, up: Tensor, *, block: int | None = None) -> Tensor:
    return _swiglu_call(gate, up)


def cross_entropy(x: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean", block: int | None = None) -> Tensor:
    losses, _ = _losses_call(x, target, ignore_index)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction != "mean":
        raise ArgumentError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return losses.sum() / (target != ignore_index).sum()


def attention(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False, scale: float | None = None, tiles: tuple[int, int] | None = None) -> Tensor:
    learns_mask = mask is not None and mask.requires_grad
    return _attention_call(q, k, v, mask, causal, _scale(q) if scale is None else scale, learns_mask)[0]


def attention_qkv(qkv: Tensor, *, causal: bool = False, scale: float | None = None) -> Tensor:
    return _packed_call(qkv, causal, _scale(qkv) if scale is None else scale)[0]


def _scale(x: Tensor) -> float:
    """What scores are multiplied with: D ** -0.5."""
    return float(x.shape[-1] ** -0.5) if x.dim() and x.shape[-1] else 1.0
