"""Tables of a lowering: what is learnt in a region is forgotten at its end."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir.text import parse_module
from eas.schedule.cpu.lower import ProgramLowering
from eas.schedule.elements.scopes import ScopedTable, Scopes
from eas.schedule.elements.statements import Statements
from eas.schedule.gpu.lanes import NotVectors, Plan
from eas.schedule.gpu.lower import LaneLowering
from eas.schedule.gpu.target import DEFAULT


def test_a_table_is_what_it_was_before_the_scope():
    table = ScopedTable[str, int]()
    table.update({"kept": 1, "changed": 2, "gone": 3, "deleted": 4})
    before = dict(table)
    with table.scope():
        table["changed"], table["new"] = 20, 5
        table["changed"] = 21
        assert table.pop("gone") == 3
        del table["deleted"]
        with table.scope():
            table["gone"], table["kept"] = 30, 10
        assert table == {"kept": 1, "changed": 21, "new": 5}
    assert table == before


def test_a_table_forgets_what_an_error_interrupted():
    table = ScopedTable[str, int]()

    def interrupted():
        with table.scope():
            table["new"] = 1
            table.pop("missing")

    with pytest.raises(KeyError):
        interrupted()
    assert table == {}


@pytest.mark.parametrize("change", [lambda t: t.setdefault(1, 2), lambda t: t.clear(), lambda t: t.popitem(), lambda t: t.__ior__({1: 2})])
def test_changes_that_no_scope_would_undo_are_refused(change):
    with pytest.raises(TypeError, match="no scope"):
        change(ScopedTable[int, int]())


def test_all_tables_enter_and_leave_a_region_together():
    scopes = Scopes()
    a, b = scopes.table(), scopes.table()
    with scopes.region():
        a[1], b[2] = 1, 2
    assert not a
    assert not b


@eas.kernel
def branch_kernel(x, y, n, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i, i < n)
    if n > 3:
        order = mk.argsort(v * 2 + i)
        table = mk.reshape(mk.cumsum(v), [N // 8, 8])
        mk.store(y, i, order + mk.sort(mk.reshape(mk.trans(table), [N])))
        w = mk.load(x, N + i)
        mk.store(y, i, mk.sort(w) - w)
        e = mk.exp(mk.load(x, N + i, i < n))
        mk.store(y, i, e / mk.sum(e), i < n)
        v = mk.sort(w)
    mk.store(y, i, v * 2 + i)


# Known by the keys of slots and read by the next round of a lowering, how many keys there are, or made in front of everything else.
_PLANS = {"shared", "carried", "slot_layouts", "rows", "matrices", "_corners", "_keys"}


def tables(lowering):
    """What a lowering knows now."""
    found = {name: v for name, v in vars(lowering).items() if isinstance(v, dict | set) and name not in _PLANS}
    return {name: dict(v) if isinstance(v, dict) else set(v) for name, v in found.items()}


@pytest.mark.parametrize("lowering", [ProgramLowering, LaneLowering])
def test_no_lowering_knows_more_behind_a_region(lowering, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    control_region, seen = Statements._control_region, []

    def compared(self, *args):
        before = tables(self)
        made = control_region(self, *args)
        seen.append(type(self))
        assert tables(self) == before
        return made

    monkeypatch.setattr(Statements, "_control_region", compared)
    compiled = branch_kernel.compile(np.zeros(512, np.float32), np.zeros(256, np.float32), 5, N=256)
    _ = compiled.msl if lowering is LaneLowering else compiled.llvm
    assert set(seen) == {lowering}


def test_a_loop_that_was_given_up_leaves_no_registers():
    """What does not work on vectors is done again on single registers; nothing of the first attempt stays."""
    lowering = LaneLowering(DEFAULT, Plan(32), parse_module("kernel k() spmd {\nyield\n}"))

    def body(register):
        raise NotVectors

    with pytest.raises(NotVectors):
        lowering.over_registers(8, (), body, 4)
    assert (lowering.register, lowering.num_registers, lowering.vector) == (None, 1, 1)
