"""Metal text worth reading: whole kernels, compared with tests/golden/msl."""

from __future__ import annotations

import pytest

from eas.analysis.indexing import Fact
from tests.unit.golden_kernels import GOLDEN, I32, dot_kernel


def metal(name):
    """The code for launches of which all facts hold, but for scalars that are 1."""
    kernel, args, meta = GOLDEN[name]
    compiled = kernel.compile(*args, **meta)
    return compiled.variant(frozenset(f for f in compiled.facts if f.kind != "equals_1")).metal


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_metal_text(name, golden):
    golden(f"msl/{name}.metal", metal(name).text)


def test_metal_text_that_relies_on_nothing(golden):
    kernel, args, meta = GOLDEN["add"]
    golden("msl/add_general.metal", kernel.compile(*args, **meta).msl)


def test_serial_dot_product_is_as_direct_as_by_hand(monkeypatch, golden):
    monkeypatch.setenv("EAS_NOOPT", "1")
    compiled = dot_kernel.compile(I32, I32, I32[:1], N=2)
    golden("msl/dot_serial.metal", compiled.variant(frozenset({Fact("disjoint")})).metal.text)


@pytest.mark.parametrize("name", ["softmax", "thread_sum"])
def test_lines_lead_back_to_the_kernel(name):
    code = metal(name)
    lines = code.text.splitlines()
    assert len(code.lines) == len(lines)
    assert all(loc is None for loc, text in zip(code.lines, lines, strict=True) if text.startswith(("//", "#include", "using")))
    body = [loc for loc, text in zip(code.lines, lines, strict=True) if text.startswith("    ") and ("=" in text or "barrier" in text) and "(" in text]
    assert body
    stores = [loc for loc, text in zip(code.lines, lines, strict=True) if loc is not None and "mk.store" in loc.source()]
    assert stores
