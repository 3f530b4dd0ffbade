"""Which stores bypass the cache: those to buffers that are not read, however their addresses are written."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.cpu import schedule
from eas.schedule.target import AVX2, AVX512, NEON


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
