"""The functions of eas.lib that have gradients, as operators of torch (`torch.ops.eas.*`)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from eas.errors import ArgumentError
from eas.lib import activations, gradients, grouped_attention
from eas.lib.activations import launch_bias_gelu
from eas.lib.arrays import check_rows, check_vector, need_float
from eas.lib.faces import as_array
from eas.lib.log_softmax import log_softmax as _log_softmax
from eas.lib.log_softmax import row_losses
from eas.lib.norms import launch_layer_norm, launch_rms_norm
from eas.lib.sizes import flat_block
from eas.lib.softmax import softmax as _softmax
from eas.torch_op import torch_op
from eas.torch_quick import quick

_NUMPY_HAS = {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.bool}
# What the schemas are made of; torch has no types for mypy here.
Two = tuple[Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]


def memory(x: Any) -> Any:
    """The memory of a tensor inside of an operator, where it is a plain CPU tensor or None."""
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


def like_or_empty(x: Tensor | None, some: Tensor) -> Tensor:
    """Memory for the gradient of `x`; an operator cannot return None."""
    return some.new_empty(0) if x is None else like(x)


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
    return x if x is None or x.is_contiguous() else x.contiguous()


def sums_like(x: Tensor) -> Any:
    """Makes memory for sums of the elements of x."""
    return lambda rows, cols: torch.empty((rows, cols), dtype=_wide(x), device=x.device)


def _layer_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Three:
    dx, dweight, dbias = like(x), like_or_empty(weight, x), like_or_empty(bias, x)
    gradients.norm_backward(
        whole(grad), whole(x), whole(weight), dx, None if weight is None else dweight, None if bias is None else dbias,
        rows_of(x), eps, sums_like(x), centred=True,
    )  # fmt: skip
    return dx, dweight, dbias


@torch_op("eas::layer_norm", backward=_layer_norm_backward, vmap="leading", autocast=torch.float32)
def layer_norm_op(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    need_floats(x, "layer_norm")
    shape, out = rows_of(x, weight=weight, bias=bias), like(x)
    launch_layer_norm(whole(x), whole(weight), whole(bias), out, shape, eps)
    return out


def _rms_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, eps: float) -> Two:
    dx, dweight = like(x), like_or_empty(weight, x)
    gradients.norm_backward(
        whole(grad), whole(x), whole(weight), dx, None if weight is None else dweight, None,
        rows_of(x), eps, sums_like(x), centred=False,
    )  # fmt: skip
    return dx, dweight


@torch_op("eas::rms_norm", backward=_rms_norm_backward, vmap="leading", autocast=torch.float32)
def rms_norm_op(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    need_floats(x, "rms_norm")
    shape, out = rows_of(x, weight=weight), like(x)
    launch_rms_norm(whole(x), whole(weight), out, shape, eps)
    return out


# --- activations --------------------------------------------------------------------------------


def _bias_gelu_backward(grad: Tensor, x: Tensor, bias: Tensor | None, approximate: str) -> Two:
    dx, dbias = like(x), like_or_empty(bias, x)
    gradients.bias_gelu_backward(
        whole(grad), whole(x), whole(bias), dx, None if bias is None else dbias, rows_of(x), sums_like(x), approximate=approximate
    )  # fmt: skip
    return dx, dbias


@torch_op("eas::bias_gelu", backward=_bias_gelu_backward, vmap="leading")
def bias_gelu_op(x: Tensor, bias: Tensor | None, approximate: str) -> Tensor:
    need_floats(x, "bias_gelu")
    if approximate not in ("none", "tanh"):
        activations.bias_gelu(memory(x), None, approximate=approximate)  # type: ignore[arg-type]  # says what is wrong
    shape, out = rows_of(x, bias=bias), like(x)
    launch_bias_gelu(whole(x), whole(bias), out, shape, approximate)
    return out


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
    return _as_torch(losses), _as_torch(norms)


def _as_torch(made: Any) -> Tensor:
    return made.to_torch() if hasattr(made, "to_torch") else torch.from_numpy(made)


# --- attention ----------------------------------------------------------------------------------


def _attention_fake(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Two:
    *batch, heads, n, _ = q.shape
    # Heads lie side by side, so that putting them together again is a view.
    out = q.new_empty((*batch, n, heads, v.shape[-1])).transpose(-3, -2)
    return out, q.new_empty(q.shape[:-1], dtype=_wide(q))


def side_by_side(x: Tensor) -> Tensor:
    """New memory for [..., heads, n, D] in which the heads of a position are neighbours."""
    *batch, heads, n, d = x.shape
    return x.new_empty((*batch, n, heads, d)).transpose(-3, -2)


def _attention_grads(grad0: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out0: Tensor, out1: Tensor, causal: bool, scale: float) -> Three:
    return side_by_side(q), side_by_side(k), side_by_side(v)


def _attention_backward(grad0: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out0: Tensor, out1: Tensor, causal: bool, scale: float) -> Three:
    made = side_by_side(q), side_by_side(k), side_by_side(v)
    grouped_attention.attention_backward(
        memory(grad0), memory(q), memory(k), memory(v), memory(mask), memory(out0), memory(out1),
        (memory(made[0]), memory(made[1]), memory(made[2])), causal, scale,
    )  # fmt: skip
    return made


@torch_op("eas::attention", fake=_attention_fake, backward=_attention_backward, backward_fake=_attention_grads, differentiates=("q", "k", "v"))
def attention_op(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Two:
    out, norms = _attention_fake(q, k, v, mask, causal, scale)
    grouped_attention.attend(
        memory(q), memory(k), memory(v), memory(mask), memory(out), memory(norms), causal, scale
    )
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
    if mask is not None and mask.requires_grad:
        raise ArgumentError(
            "eas.lib.attention has no gradient for its mask", hint="pass mask.detach()"
        )
    return _attention_call(q, k, v, mask, causal, q.shape[-1] ** -0.5 if scale is None else scale)[0]
