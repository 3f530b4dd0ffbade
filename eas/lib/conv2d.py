"""Convolution of images as a matrix product whose left operand is gathered, never stored."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_small, check_vector, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import tile

Pair = int | tuple[int, int]

CONV_TILE = (64, 64, 64)  # output channels, output pixels, elements of a filter


@kernel
def conv2d_kernel(
    x, weight, bias, y, C, H, W, n_outs, OH, OW, per_group,
    KH: constexpr, KW: constexpr, STEP: constexpr, PAD: constexpr, GAP: constexpr,
    BO: constexpr, BP: constexpr, BK: constexpr,
):  # fmt: skip
    """A program makes BO channels of BP pixels; C and n_outs count the channels of one group."""
    image, group = mk.program_id(2) // per_group, mk.program_id(2) % per_group
    outs = mk.program_id(0) * BO + mk.arange(0, BO)
    pixel = mk.program_id(1) * BP + mk.arange(0, BP)[None, :]
    top, left = pixel // OW * STEP[0] - PAD[0], pixel % OW * STEP[1] - PAD[1]
    planes = (image * per_group + group) * C
    n_taps = C * (KH * KW)
    acc = mk.zeros([BO, BP], wide_dtype(x.dtype))
    for first in range(0, n_taps, BK):
        taps = first + mk.arange(0, BK)
        filters = mk.load(weight, (group * n_outs + outs[:, None]) * n_taps + taps[None, :], (outs[:, None] < n_outs) & (taps[None, :] < n_taps))
        tap = taps[:, None]
        row, col = top + tap // KW % KH * GAP[0], left + tap % KW * GAP[1]
        inside = (tap < n_taps) & (pixel < OH * OW) & (row >= 0) & (row < H) & (col >= 0) & (col < W)
        pixels = mk.load(x, ((planes + tap // (KH * KW)) * H + row) * W + col, inside)
        acc = mk.dot(filters, pixels, acc)
    channel = group * n_outs + outs
    if bias is not None:
        acc = acc + wide(mk.load(bias, channel, outs < n_outs))[:, None]
    place = (image * (per_group * n_outs) + channel)[:, None] * (OH * OW) + pixel
    mk.store(y, place, acc, (outs[:, None] < n_outs) & (pixel < OH * OW))


def conv2d(x: Array, weight: Array, bias: Array | None = None, out: Array | None = None, *, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1, groups: int = 1) -> Array:
    """Cross-correlation of [..., C, H, W] with filters [O, C / groups, KH, KW], plus bias [O], as torch's conv2d."""
    need(x.ndim >= 3 and weight.ndim == 4 and x.dtype == weight.dtype, f"conv2d needs [..., C, H, W] and [O, C, KH, KW], got {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)}")
    need_float(x, "conv2d")
    (c, h, w), (o, cg, kh, kw) = x.shape[-3:], weight.shape
    need(groups >= 1 and c == cg * groups and o % groups == 0, f"{c} channels and {o} filters of {cg} channels do not fit {groups} groups")
    step, pad, gap = _pair(stride), _pair(padding), _pair(dilation)
    oh, ow = (h + 2 * pad[0] - gap[0] * (kh - 1) - 1) // step[0] + 1, (w + 2 * pad[1] - gap[1] * (kw - 1) - 1) // step[1] + 1
    need(oh > 0 and ow > 0, f"filters of {kh}x{kw} do not fit an image of {h}x{w}")
    if bias is not None:
        check_vector(bias, o, "bias")
    out = result(out, (*x.shape[:-3], o, oh, ow), x.dtype, x)
    check_small(x, weight, out)
    images = x.size // (c * h * w) if x.size else 0
    bo, bp, bk = tile(o // groups, CONV_TILE[0]), tile(oh * ow, CONV_TILE[1]), tile(cg * kh * kw, CONV_TILE[2])
    conv2d_kernel[mk.cdiv(o // groups, bo), mk.cdiv(oh * ow, bp), images * groups](
        x, weight, bias, out, cg, h, w, o // groups, oh, ow, groups, KH=kh, KW=kw, STEP=step, PAD=pad, GAP=gap, BO=bo, BP=bp, BK=bk)  # fmt: skip
    return out


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
