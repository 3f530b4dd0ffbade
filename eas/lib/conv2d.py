"""Convolution of images as matrix products: of gathered pixels, or of a row of pixels per tap of the filter."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_small, check_vector, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import even_tile, on_metal, tile
from eas.lib.transpose import transpose

Pair = int | tuple[int, int]

CONV_TILE = (64, 64, 64)  # output channels, output pixels, elements of a filter
ROW_TILE = (96, 128)  # output channels, pixels of an output row
MIN_CHANNELS = 16  # of a group: a product over fewer is too short


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


@kernel
def pad_kernel(x, y, H, W, top, left, PH, PW, BLOCK: constexpr):
    """Each program a row of PW elements of a plane of PH rows, with zeros around H x W."""
    row, plane = mk.program_id(0) - top, mk.program_id(1)
    cols = mk.arange(0, BLOCK) - left
    inside = (row >= 0) & (row < H) & (cols >= 0) & (cols < W)
    mk.store(y, (plane * PH + mk.program_id(0)) * PW + cols + left, mk.load(x, (plane * H + row) * W + cols, inside), cols < PW - left)


@kernel
def conv2d_rows_kernel(
    x, weight, bias, y, C, H, W, n_outs, OH, OW, per_group,
    KH: constexpr, KW: constexpr, STEP: constexpr, GAP: constexpr,
    BO: constexpr, BP: constexpr, BK: constexpr,
):  # fmt: skip
    """A program makes BO channels of BP pixels of a row: per tap, a product over the channels of a padded x.

    Weights are stored tap by tap, [KH * KW, channels made, C].
    """
    image, group = mk.program_id(2) // per_group, mk.program_id(2) % per_group
    across = mk.cdiv(OW, BP)
    row, first_col = mk.program_id(1) // across, mk.program_id(1) % across * BP
    outs, cols = mk.program_id(0) * BO + mk.arange(0, BO), first_col + mk.arange(0, BP)
    planes = (image * per_group + group) * C
    acc = mk.zeros([BO, BP], wide_dtype(x.dtype))
    for tap in range(KH * KW):
        corner = (row * STEP[0] + tap // KW * GAP[0]) * W + tap % KW * GAP[1]
        for first in range(0, C, BK):
            inner = first + mk.arange(0, BK)
            filters = mk.load(weight, ((tap * per_group + group) * n_outs + outs[:, None]) * C + inner[None, :], (outs[:, None] < n_outs) & (inner[None, :] < C))
            pixels = mk.load(x, (planes + inner[:, None]) * (H * W) + corner + cols[None, :] * STEP[1], (inner[:, None] < C) & (cols[None, :] < OW))
            acc = mk.dot(filters, pixels, acc)
    channel = group * n_outs + outs
    if bias is not None:
        acc = acc + wide(mk.load(bias, channel, outs < n_outs))[:, None]
    place = ((image * (per_group * n_outs) + channel)[:, None] * OH + row) * OW + cols[None, :]
    mk.store(y, place, acc, (outs[:, None] < n_outs) & (cols[None, :] < OW))


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
    if cg >= MIN_CHANNELS and not on_metal(x):
        x = _padded(x, pad)
        h, w = x.shape[-2:]
        if (kh, kw, *step) == (1, 1, 1, 1):  # rows follow each other
            h, w, oh, ow = 1, h * w, 1, oh * ow
        taps = weight if kh * kw == 1 else transpose(weight.reshape(o * cg, kh * kw))
        bo, bp, bk = even_tile(o // groups, ROW_TILE[0], 4), even_tile(ow, ROW_TILE[1]), tile(cg, CONV_TILE[2])
        conv2d_rows_kernel[mk.cdiv(o // groups, bo), oh * mk.cdiv(ow, bp), images * groups](
            x, taps, bias, out, cg, h, w, o // groups, oh, ow, groups, KH=kh, KW=kw, STEP=step, GAP=gap, BO=bo, BP=bp, BK=bk)  # fmt: skip
        return out
    bo, bp, bk = tile(o // groups, CONV_TILE[0]), tile(oh * ow, CONV_TILE[1]), tile(cg * kh * kw, CONV_TILE[2])
    conv2d_kernel[mk.cdiv(o // groups, bo), mk.cdiv(oh * ow, bp), images * groups](
        x, weight, bias, out, cg, h, w, o // groups, oh, ow, groups, KH=kh, KW=kw, STEP=step, PAD=pad, GAP=gap, BO=bo, BP=bp, BK=bk)  # fmt: skip
    return out


def _padded(x: Array, pad: tuple[int, int]) -> Array:
    """Images with zeros around them."""
    if pad == (0, 0):
        return x
    (h, w), planes = x.shape[-2:], x.size // (x.shape[-2] * x.shape[-1])
    ph, pw = h + 2 * pad[0], w + 2 * pad[1]
    y = result(None, (*x.shape[:-2], ph, pw), x.dtype, x)
    check_small(y)
    pad_kernel[ph, planes](x, y, h, w, *pad, ph, pw, BLOCK=mk.next_power_of_2(pw))
    return y


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
