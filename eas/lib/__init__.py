"""Kernels that everybody needs, written in `mk` as a user would.

Every function takes NumPy arrays, eas tensors or torch tensors of any leading shape and returns
what it was given; `out=` is optional.
"""

from eas.lib.activations import bias_gelu, silu, swiglu
from eas.lib.conv2d import conv2d
from eas.lib.dropout import dropout
from eas.lib.elementwise import add, gelu
from eas.lib.faces.calls import takes_any
from eas.lib.grouped_attention import attention, attention_qkv
from eas.lib.linear import int8_matvec, linear, matmul, quantise_int8
from eas.lib.log_softmax import cross_entropy, log_softmax
from eas.lib.norms import layer_norm, rms_norm
from eas.lib.reductions import histogram, sum
from eas.lib.rope import rope
from eas.lib.rows import argmax, cumsum
from eas.lib.softmax import softmax
from eas.lib.stacks import transpose
from eas.lib.topk import topk

add = takes_any(add, is_one_launch=True)
argmax = takes_any(argmax, makes_integers=True, is_one_launch=True)
attention = takes_any(attention, gradient_args=3)
attention_qkv = takes_any(attention_qkv, gradient_args=1)
bias_gelu = takes_any(bias_gelu, gradient_args=2)
conv2d = takes_any(conv2d)
cross_entropy = takes_any(cross_entropy, gradient_args=2)
cumsum = takes_any(cumsum, is_one_launch=True)
dropout = takes_any(dropout)
gelu = takes_any(gelu, gradient_args=3, is_one_launch=True)
histogram = takes_any(histogram, makes_integers=True)
int8_matvec = takes_any(int8_matvec)
layer_norm = takes_any(layer_norm, gradient_args=4)
linear = takes_any(linear)
log_softmax = takes_any(log_softmax, gradient_args=1)
matmul = takes_any(matmul)
quantise_int8 = takes_any(quantise_int8)
rms_norm = takes_any(rms_norm, gradient_args=3)
rope = takes_any(rope)
silu = takes_any(silu, gradient_args=1, is_one_launch=True)
softmax = takes_any(softmax, gradient_args=1, is_one_launch=True)
sum = takes_any(sum)
swiglu = takes_any(swiglu, gradient_args=2, is_one_launch=True)
topk = takes_any(topk)
transpose = takes_any(transpose)

__all__ = [
    "add",
    "argmax",
    "attention",
    "attention_qkv",
    "bias_gelu",
    "conv2d",
    "cross_entropy",
    "cumsum",
    "dropout",
    "gelu",
    "histogram",
    "int8_matvec",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "quantise_int8",
    "rms_norm",
    "rope",
    "silu",
    "softmax",
    "sum",
    "swiglu",
    "topk",
    "transpose",
]
