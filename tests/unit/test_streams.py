"""Which stores bypass the cache: those to buffers that are not read, however their addresses are written."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, AVX512, NEON, CpuTarget


@eas.kernel
def scaled_rows(x, y, n, FORM: mk.constexpr, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    v = mk.load(x + row * n + c, mask=c < n)
    v = v / mk.sum(v)
    if FORM == "offset":
        mk.store(y, row * n + c, v, c < n)
    elif FORM == "pointer":
        mk.store(y + row * n + c, v, mask=c < n)
    elif FORM == "steps":
        first = y + row * n
        mk.store(first + 4 + c, v, mask=c < n)
    elif FORM == "read":
        mk.store(x + row * n + c, v, mask=c < n)
    elif FORM == "scan":
        mk.store(y + row * n + c, mk.cumsum(v), mask=c < n)


def streams(target, form):
    """Whether a store may bypass the cache."""
    x, y = np.zeros((2, 8192), np.float32)
    compiled = scaled_rows.compile(x, y, 1024, FORM=form, BLOCK=1024)
    module = schedule(compiled.variant(frozenset(f for f in compiled.facts if f.kind == "disjoint")).module, target)
    return any(inst.op.name in ("can_stream", "stream_head") for inst in walk(module.body))


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=lambda t: t.name)
@pytest.mark.parametrize("form", ["offset", "pointer", "steps"])
def test_addresses_of_any_form_are_streamed(target, form):
    assert streams(target, form)


@pytest.mark.parametrize("form", ["read", "scan"])
def test_what_is_read_or_moves_lanes_is_not(form):
    assert not streams(AVX2, form)


@eas.kernel
def turned_tiles(x, y, rows, cols, TILE: mk.constexpr):
    r = mk.program_id(1) * TILE + mk.arange(0, TILE)
    c = mk.program_id(0) * TILE + mk.arange(0, TILE)
    tile = mk.load(x, r[:, None] * cols + c[None, :], (r[:, None] < rows) & (c[None, :] < cols))
    mk.store(y, c[:, None] * rows + r[None, :], mk.trans(tile), (c[:, None] < cols) & (r[None, :] < rows))


@pytest.mark.parametrize(("size", "align"), [(64, 64), (128, 16), (256, 16)])
def test_rows_of_one_step_are_streamed_in_whole_lines(size, align):
    """Longer ones from any address on, which leaves two parts of lines in each."""
    x, y = np.zeros((2, 64), np.float32)
    compiled = turned_tiles.compile(x, y, 8, 8, TILE=size)
    module = schedule(compiled.variant(frozenset(f for f in compiled.facts if f.kind == "disjoint")).module, AVX512)
    assert {inst["align"] for inst in walk(module.body) if inst.op.name == "stream_head"} == {align}


@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize(("rows", "cols"), [(64, 128), (100, 200)])
def test_streamed_tiles_are_whole_wherever_they_start(monkeypatch, tmp_path, offset, rows, cols):
    """As if L3 were tiny, so that small arrays bypass it."""
    monkeypatch.setattr(CpuTarget, "stream_nbytes", 4)
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    x = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)
    room = np.zeros(rows * cols * 4 + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    y = room[start : start + x.nbytes].view(np.float32).reshape(cols, rows)
    turned_tiles[mk.cdiv(cols, 64), mk.cdiv(rows, 64)](x, y, rows, cols, TILE=64)
    np.testing.assert_array_equal(y, x.T)
    assert not room[:start].any()
    assert not room[start + x.nbytes :].any()
