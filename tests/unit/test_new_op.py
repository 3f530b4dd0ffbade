"""An op from outside of eas: one row, one LLVM spelling, one MSL spelling, and everybody knows it."""

import re
from dataclasses import replace

import numpy as np
import pytest

import eas
from eas import mk
from eas.analysis.cost import most_work, program_cost
from eas.codegen.llvm import ops as llvm
from eas.codegen.msl import ops as msl
from eas.codegen.msl.text import call, infix
from eas.frontend.values import emit
from eas.ops import TABLE, Op, Trait
from eas.ops.rules import FLOATS, same

ROW = Op("softsign", "elementwise", "x", same("softsign", FLOATS), "x / (1 + |x|).", Trait.PURE | Trait.ELEMENTWISE, lambda call, x: x / (1 + np.abs(x)), cost=6, dtypes=FLOATS)


def _llvm_softsign(t, inst, xs):
    return t.op("fdiv", xs[0], t.op("fadd", t.like(1.0, xs[0]), t.call("llvm.fabs", xs[0].element, xs[0])))


def _msl_softsign(m, inst, xs):
    return infix("/", xs[0], infix("+", msl.literal(1.0, inst.out.dtype), call("fabs", xs[0])))


@pytest.fixture(params=["on vectors", "one by one"])
def row(request, monkeypatch):
    """The row, for Metal with and without vectors."""
    row = ROW if request.param == "on vectors" else replace(ROW, traits=ROW.traits | Trait.ONE_BY_ONE)
    monkeypatch.setitem(TABLE, "softsign", row)
    monkeypatch.setitem(llvm.OPS, "softsign", _llvm_softsign)
    monkeypatch.setitem(msl.OPS, "softsign", _msl_softsign)
    return row


def softsign(x):
    return emit("softsign", x)


def _kernel():
    @eas.kernel
    def squash(x, y, n, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(y, i, softsign(mk.load(x, i, i < n)), i < n)

    return squash


@pytest.mark.parametrize("target", ["interp", "cpu", "sim"])
def test_a_new_op_runs_everywhere(row, target, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", target)
    x = np.linspace(-9, 9, 1000, dtype=np.float32)
    y = np.zeros_like(x)
    _kernel()[(4,)](x, y, 1000, BLOCK=256)
    np.testing.assert_allclose(y, x / (1 + np.abs(x)), rtol=1e-6)


def test_a_new_op_runs_on_vectors(row):
    x = np.zeros(4096, np.float32)
    compiled = _kernel().compile(x, x.copy(), 4096, BLOCK=1024)
    assert re.search(r"fdiv <\d+ x float>", compiled.llvm)
    assert ("float4 softsign =" in compiled.msl) == (not row.has(Trait.ONE_BY_ONE))


def _traced():
    return _kernel().compile(np.zeros(256, np.float32), np.zeros(256, np.float32), 256, BLOCK=256).traced


def test_a_new_op_has_a_price(row, monkeypatch):
    assert program_cost(_traced()).flops == 256
    dear = most_work(_traced())
    monkeypatch.setitem(TABLE, "softsign", replace(row, cost=1))
    assert dear - most_work(_traced()) == 256 * (row.cost - 1)
