"""The functions of eas.lib that have gradients, as operators of torch (`torch.ops.eas.*`)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from eas.errors import ArgumentError
from eas.lib import activations, gradients, grouped_attention
from eas.lib.faces import as_array
from eas.lib.log_softmax import log_softmax as _log_softmax
from eas.lib.log_softmax import row_losses
from eas.lib.norms import layer_norm as _layer_norm
from eas.lib.norms import rms_norm as _rms_norm
from eas.lib.sizes import flat_block
from eas.lib.softmax import softmax as _softmax
from eas.torch_op import torch_op

_NUMPY_HAS = {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.bool}
# What the schemas are made of; torch has no types for mypy here.
Two = tuple[Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]


def memory(x: Any) -> Any:
    """The memory of a tensor inside of an operator, where it is a plain CPU tensor or None."""
    if x is None:
        return None
    if x.dtype in _NUMPY_HAS and x.device.type == "cpu" and (x.data_ptr() or not x.numel()):
        return x.detach().numpy()
    return as_array(x.detach())


def like(x: Tensor) -> Tensor:
    """New contiguous memory of the shape and dtype of `x`."""
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


def _layer_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Three:
    dx, dweight, dbias = like(x), like_or_empty(weight, x), like_or_empty(bias, x)
    gradients.norm_backward(
        flat(grad), flat(x), flat(weight), memory(dx), None if weight is None else memory(dweight),
        None if bias is None else memory(dbias), eps, centred=True,
    )  # fmt: skip
    return dx, dweight, dbias


@torch_op("eas::layer_norm", backward=_layer_norm_backward, vmap="leading", autocast=torch.float32)
def layer_norm_op(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    out = like(x)
    _layer_norm(flat(x), flat(weight), flat(bias), eps, memory(out))
    return out


def _rms_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, eps: float) -> Two:
    dx, dweight = like(x), like_or_empty(weight, x)
    gradients.norm_backward(
        flat(grad), flat(x), flat(weight), memory(dx), None if weight is None else memory(dweight), None, eps, centred=False
    )  # fmt: skip
    return dx, dweight


@torch_op("eas::rms_norm", backward=_rms_norm_backward, vmap="leading", autocast=torch.float32)
def rms_norm_op(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    out = like(x)
    _rms_norm(flat(x), flat(weight), eps, memory(out))
    return out


# --- activations --------------------------------------------------------------------------------


def _bias_gelu_backward(grad: Tensor, x: Tensor, bias: Tensor | None, approximate: str) -> Two:
    dx, dbias = like(x), like_or_empty(bias, x)
    gradients.bias_gelu_backward(
        flat(grad), flat(x), flat(bias), memory(dx), None if bias is None else memory(dbias), approximate=approximate
    )  # fmt: skip
    return dx, dbias


@torch_op("eas::bias_gelu", backward=_bias_gelu_backward, vmap="leading")
def bias_gelu_op(x: Tensor, bias: Tensor | None, approximate: str) -> Tensor:
    out = like(x)
    activations.bias_gelu(flat(x), flat(bias), memory(out), approximate=approximate)  # type: ignore[arg-type]  # checked there
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


def softmax(x: Tensor, *, block: int | None = None) -> Tensor:
    return softmax_op(x)


def log_softmax(x: Tensor, *, block: int | None = None) -> Tensor:
    return log_softmax_op(x)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *, block: int | None = None) -> Tensor:
    return layer_norm_op(x, weight, bias, eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-5, *, block: int | None = None) -> Tensor:
    return rms_norm_op(x, weight, eps)


def bias_gelu(x: Tensor, bias: Tensor | None = None, *, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    return bias_gelu_op(x, bias, approximate)


def silu(x: Tensor, *, block: int | None = None) -> Tensor:
    return silu_op(x)


def swiglu(gate: Tensor, up: Tensor, *, block: int | None = None) -> Tensor:
    return swiglu_op(gate, up)


def cross_entropy(x: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean", block: int | None = None) -> Tensor:
    losses, _ = losses_op(x, target, ignore_index)
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
    return attention_op(q, k, v, mask, causal, q.shape[-1] ** -0.5 if scale is None else scale)[0]
