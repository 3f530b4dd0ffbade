"""Convolution of images: products of rows of pixels with filters, single channels tap by tap; of gathered pixels on Metal."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from dataclasses import dataclass

from eas import mk
from eas.lib.arrays import Array, check_small, check_vector, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import FLAT_BLOCK, even_tile, on_metal, strip, tile

Pair = int | tuple[int, int]

CONV_TILE = (64, 64, 64)  # output channels, output pixels, elements of a filter
ROW_TILE = (64, 128, 256)  # output channels, pixels of an output row, elements of a filter
SHORT_ROW = 32  # pixels: rows up to this long are joined
PLANE_TILE = (8, 128)  # pixels of one channel
WIDE_ROW = 64  # pixels: in rows longer than this the pixels of a channel follow each other better than tiles do
MIN_CHANNELS = 16  # of a group: products over fewer are joined


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
def lay_pixels_kernel(x, y, C, H, W, top, left, PH, PW, BC: constexpr, BP: constexpr):
    """Planes [C, H, W] as [PH, PW, C], with zeros around."""
    row, plane = mk.program_id(1) - top, mk.program_id(2)
    across = mk.cdiv(PW, BP)
    cols, channels = mk.program_id(0) % across * BP + mk.arange(0, BP) - left, mk.program_id(0) // across * BC + mk.arange(0, BC)
    inside = (row >= 0) & (row < H) & (cols[None, :] >= 0) & (cols[None, :] < W) & (channels[:, None] < C)
    pixels = mk.load(x, ((plane * C + channels[:, None]) * H + row) * W + cols[None, :], inside)
    place = ((plane * PH + mk.program_id(1)) * PW + cols[:, None] + left) * C + channels[None, :]
    mk.store(y, place, mk.trans(pixels), (cols[:, None] < PW - left) & (channels[None, :] < C))


@kernel
def lay_columns_kernel(x, y, H, W, OH, PW, C: constexpr, KH: constexpr, STEP: constexpr, PAD: constexpr, GAP: constexpr, BT: constexpr, BP: constexpr):
    """Planes [C, H, W] as [OH, PW, KH, C]: under each pixel of an output row, what a column of the filter meets."""
    line, plane = mk.program_id(1), mk.program_id(2)
    across = mk.cdiv(PW, BP)
    cols, taps = mk.program_id(0) % across * BP + mk.arange(0, BP) - PAD[1], mk.program_id(0) // across * BT + mk.arange(0, BT)
    row = line * STEP - PAD[0] + taps // C * GAP
    inside = ((taps < KH * C) & (row >= 0) & (row < H))[:, None] & (cols[None, :] >= 0) & (cols[None, :] < W)
    pixels = mk.load(x, ((plane * C + taps % C) * H + row)[:, None] * W + cols[None, :], inside)
    place = ((plane * OH + line) * PW + cols[:, None] + PAD[1]) * (KH * C) + taps[None, :]
    mk.store(y, place, mk.trans(pixels), (cols[:, None] < PW - PAD[1]) & (taps[None, :] < KH * C))


@kernel
def lay_filters_kernel(weight, y, C, KH: constexpr, KW: constexpr, BY_COLUMN: constexpr, BLOCK: constexpr):
    """Filters [C, KH, KW] as [KH, KW, C], or [KW, KH, C]."""
    place = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    tap, start = place // C, mk.program_id(1) * C * (KH * KW)
    if BY_COLUMN:
        tap = tap % KH * KW + tap // KH
    values = mk.load(weight, start + place % C * (KH * KW) + tap, place < C * (KH * KW))
    mk.store(y, start + place, values, place < C * (KH * KW))


@kernel
def conv2d_rows_kernel(
    x, weight, bias, y, C, x_row, x_pixel, x_channel, x_plane, n_outs, OW, y_plane, wide_row, y_row, per_group,
    TAPS: constexpr, STEP: constexpr, JOINED: constexpr, BO: constexpr, BP: constexpr, BK: constexpr,
):  # fmt: skip
    """A program makes BO channels of BP pixels of a row: a product over C numbers for each of TAPS, a list of offsets in x.

    Numbers that follow each other are x_channel apart in x; weights are stored [channels made, TAPS, C].
    If rows are JOINED to one of OW pixels, of each wide_row of them y_row are stored.
    """
    image, group = mk.program_id(2) // per_group, mk.program_id(2) % per_group
    across = mk.cdiv(OW, BP)
    row, first_col = mk.program_id(1) // across, mk.program_id(1) % across * BP
    outs, cols = mk.program_id(0) * BO + mk.arange(0, BO), first_col + mk.arange(0, BP)
    acc = mk.zeros([BP, BO], wide_dtype(x.dtype))
    for tap in range(TAPS[0] * TAPS[1]):
        corner = mk.program_id(2) * x_plane + (row * STEP[0] + tap // TAPS[1] * TAPS[2]) * x_row + tap % TAPS[1] * (TAPS[3] * x_pixel)
        for first in range(0, C, BK):
            inner = first + mk.arange(0, BK)
            pixels = mk.load(x, corner + cols[:, None] * (STEP[1] * x_pixel) + inner[None, :] * x_channel, (cols[:, None] < OW) & (inner[None, :] < C))
            filters = mk.load(weight, ((group * n_outs + outs[:, None]) * (TAPS[0] * TAPS[1]) + tap) * C + inner[None, :], (outs[:, None] < n_outs) & (inner[None, :] < C))
            acc = mk.dot(pixels, mk.trans(filters), acc)
    channel = group * n_outs + outs
    if bias is not None:
        acc = acc + wide(mk.load(bias, channel, outs < n_outs))[None, :]
    pixel = cols // wide_row * y_row + cols % wide_row if JOINED else row * OW + cols
    is_stored = (outs[:, None] < n_outs) & (cols[None, :] < OW)
    if JOINED:
        is_stored = is_stored & (cols % wide_row < y_row)[None, :]
    mk.store(y, (image * (per_group * n_outs) + channel)[:, None] * y_plane + pixel[None, :], mk.trans(acc), is_stored)


@kernel
def depthwise_kernel(
    x, weight, bias, y, H, W, n_outs, OH, OW, n_channels,
    KH: constexpr, KW: constexpr, STEP: constexpr, PAD: constexpr, GAP: constexpr, BR: constexpr, BP: constexpr,
):  # fmt: skip
    """A program makes BR x BP pixels of a channel, of n_outs, from the pixels of one channel, of n_channels.

    BR is 0 where a pixel is made of those around it: then BP pixels follow each other in rows of W.
    """
    image, out = mk.program_id(2) // n_outs, mk.program_id(2) % n_outs
    if BR:
        rows, cols = mk.program_id(1) * BR + mk.arange(0, BR)[:, None], mk.program_id(0) * BP + mk.arange(0, BP)[None, :]
        place, is_made = rows * OW + cols, (rows < OH) & (cols < OW)
    else:
        place = mk.program_id(0) * BP + mk.arange(0, BP)
        rows, cols, is_made = place // W, place % W, place < H * W
    plane = image * n_channels + out // (n_outs // n_channels)
    acc = mk.zeros([BR, BP] if BR else [BP], wide_dtype(x.dtype))
    for i in mk.static_range(KH):
        row = rows * STEP[0] + (i * GAP[0] - PAD[0])
        for j in mk.static_range(KW):
            col = cols * STEP[1] + (j * GAP[1] - PAD[1])
            inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
            if BR:
                inside = inside & is_made
            acc += wide(mk.load(x, (plane * H + row) * W + col, inside)) * wide(mk.load(weight, (out * KH + i) * KW + j))
    if bias is not None:
        acc += wide(mk.load(bias, out))
    mk.store(y, mk.program_id(2) * (OH * OW) + place, acc, is_made)


def conv2d(x: Array, weight: Array, bias: Array | None = None, out: Array | None = None, *, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1, groups: int = 1) -> Array:
    """Cross-correlation of [..., C, H, W] with filters [O, C / groups, KH, KW], plus bias [O], as torch's conv2d."""
    need(x.ndim >= 3 and weight.ndim == 4 and x.dtype == weight.dtype, lambda: f"conv2d needs [..., C, H, W] and [O, C, KH, KW], got {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)}")
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
    if not on_metal(x):
        conv = _Conv(images, groups, (cg, h, w), (o, oh, ow), (kh, kw), step, pad, gap)
        (_depthwise if cg == 1 else _by_rows)(conv, x, weight, bias, out)
        return out
    bo, bp, bk = tile(x, o // groups, CONV_TILE[0]), tile(x, oh * ow, CONV_TILE[1]), tile(x, cg * kh * kw, CONV_TILE[2])
    conv2d_kernel[mk.cdiv(o // groups, bo), mk.cdiv(oh * ow, bp), images * groups](
        x, weight, bias, out, cg, h, w, o // groups, oh, ow, groups, KH=kh, KW=kw, STEP=step, PAD=pad, GAP=gap, BO=bo, BP=bp, BK=bk)  # fmt: skip
    return out


@dataclass(frozen=True)
class _Conv:
    """The sizes of a convolution."""

    images: int
    groups: int
    given: tuple[int, int, int]  # channels of a group, height, width
    made: tuple[int, int, int]  # channels, height, width
    taps: tuple[int, int]
    step: tuple[int, int]
    pad: tuple[int, int]
    gap: tuple[int, int]


def _depthwise(conv: _Conv, x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    (_, h, w), (o, oh, ow), (kh, kw) = conv.given, conv.made, conv.taps
    if (oh, ow, *conv.step) == (h, w, 1, 1) and w > WIDE_ROW:
        br, bp = 0, strip(h * w, FLAT_BLOCK // 2)
        grid = mk.cdiv(h * w, bp), 1, conv.images * o
    else:
        br, bp = even_tile(oh, PLANE_TILE[0], 1), even_tile(ow, PLANE_TILE[1], 8)
        grid = mk.cdiv(ow, bp), mk.cdiv(oh, br), conv.images * o
    depthwise_kernel[grid](
        x, weight, bias, out, h, w, o, oh, ow, conv.groups, KH=kh, KW=kw, STEP=conv.step, PAD=conv.pad, GAP=conv.gap, BR=br, BP=bp)  # fmt: skip


def _by_rows(conv: _Conv, x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """Products of a row of pixels each, after x and weight are laid out so that these are long."""
    (c, h, w), (o, oh, ow), (kh, kw), groups = conv.given, conv.made, conv.taps, conv.groups
    step, planes = conv.step, conv.images * groups
    ph, pw = h + 2 * conv.pad[0], w + 2 * conv.pad[1]
    stored, is_joined = (oh * ow, pw, ow), False
    if (kh, kw, *step, *conv.pad) == (1, 1, 1, 1, 0, 0):  # pixels as they are, and rows follow each other
        pixels, filters, taps, numbers = x, weight, (1, 1, 1, 1), (c, 0, 1, h * w, c * h * w)
        oh, ow = 1, oh * ow
    elif c < MIN_CHANNELS and conv.gap[1] == 1:
        pixels, filters = _columns(conv, x, pw), _filters(conv, weight, by_column=True)
        taps, step = (1, 1, 1, 1), (1, step[1])
        numbers = (kw * kh * c, pw * kh * c, kh * c, 1, oh * pw * kh * c)
    else:
        pixels, filters = _pixels(conv, x, ph, pw), _filters(conv, weight, by_column=False)
        joined = kw if conv.gap[1] == 1 else 1  # taps of a row whose pixels follow each other
        taps, numbers = (kh, kw // joined, *conv.gap), (joined * c, pw * c, c, 1, ph * pw * c)
        is_joined = step == (1, 1) and ow <= SHORT_ROW
        if is_joined:  # with the pixels between two rows, which are not stored
            oh, ow = 1, (oh - 1) * pw + ow
    bo, bp, bk = even_tile(o // groups, ROW_TILE[0]), even_tile(ow, ROW_TILE[1], 4), even_tile(numbers[0], ROW_TILE[2])
    conv2d_rows_kernel[mk.cdiv(o // groups, bo), oh * mk.cdiv(ow, bp), planes](
        pixels, filters, bias, out, *numbers, o // groups, ow, *stored, groups, TAPS=taps, STEP=step, JOINED=is_joined, BO=bo, BP=bp, BK=bk)  # fmt: skip


def _pixels(conv: _Conv, x: Array, ph: int, pw: int) -> Array:
    (c, h, w), planes = conv.given, conv.images * conv.groups
    y = result(None, (planes, ph, pw, c), x.dtype, x)
    check_small(y)
    bc, bp = tile(x, c), even_tile(pw, ROW_TILE[1])
    lay_pixels_kernel[mk.cdiv(pw, bp) * mk.cdiv(c, bc), ph, planes](x, y, c, h, w, *conv.pad, ph, pw, BC=bc, BP=bp)
    return y


def _columns(conv: _Conv, x: Array, pw: int) -> Array:
    (c, h, w), oh, kh, planes = conv.given, conv.made[1], conv.taps[0], conv.images * conv.groups
    y = result(None, (planes, oh, pw, kh, c), x.dtype, x)
    check_small(y)
    bt, bp = even_tile(kh * c, ROW_TILE[0], 8), even_tile(pw, ROW_TILE[1], 8)
    lay_columns_kernel[mk.cdiv(pw, bp) * mk.cdiv(kh * c, bt), oh, planes](
        x, y, h, w, oh, pw, C=c, KH=kh, STEP=conv.step[0], PAD=conv.pad, GAP=conv.gap[0], BT=bt, BP=bp)  # fmt: skip
    return y


def _filters(conv: _Conv, weight: Array, by_column: bool) -> Array:
    """The weights with channels last, and the rows of a filter before its columns if `by_column`."""
    (kh, kw), c, o = conv.taps, conv.given[0], conv.made[0]
    y = result(None, (o, kh * kw * c), weight.dtype, weight)
    block = strip(kh * kw * c, FLAT_BLOCK)
    lay_filters_kernel[mk.cdiv(kh * kw * c, block), o](weight, y, c, KH=kh, KW=kw, BY_COLUMN=by_column, BLOCK=block)
    return y


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
