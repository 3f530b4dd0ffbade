"""Attributes are declared in the row of their op, with the kind of what they hold."""

import pytest

from eas.base.errors import InvalidIR
from eas.ir import make
from eas.ir.text import parse_module, print_module
from eas.ops import TABLE
from eas.ops.table import KINDS
from tests.unit.ir_texts import kernel


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%x = arange {end=4, start=0, step=2} : i32[4]", "arange declares no attribute 'step'"),
        ("%x = arange {end=4, is_inner=1, start=0} : i32[4]", "arange: the attribute 'is_inner' is declared as bool, got 1"),
        ("%x = arange {end=true, start=0} : i32[1]", "arange: the attribute 'end' is declared as int, got True"),
        ("%x = program_id : i32", "program_id lacks its attribute 'axis'"),
        ('%x = vload %p {lanes="4"} : f32', "vload: the attribute 'lanes' is declared as int, got '4'"),
        ('sync {spaces=("threadgroup",1,)}', "sync: the attribute 'spaces' is declared as strs, got ('threadgroup', 1)"),
    ],
)  # fmt: skip
def test_the_verifier_refuses_what_no_row_declares(line, said):
    with pytest.raises(InvalidIR) as error:
        kernel("%p: ptr<f32>", line)
    assert said in str(error.value)


def test_the_hint_lists_what_the_row_has():
    with pytest.raises(InvalidIR, match=r"its row in eas/ops has start: int, end: int, is_inner\?: bool"):
        kernel("", "%x = arange {end=4, start=0, step=2} : i32[4]")


def test_optional_attributes_read_as_none_and_undeclared_ones_not_at_all():
    load = make("arange", attrs={"start": 0, "end": 4})
    assert load["end"] == 4
    assert load["is_inner"] is None
    with pytest.raises(KeyError, match="arange has no attribute lanes"):
        load["lanes"]
    assert load.attr("lanes", 8) == 8
    assert load.with_attrs(is_inner=True)["is_inner"] is True


def test_every_row_declares_known_kinds():
    assert {a.kind for op in TABLE.values() for a in op.attributes.values()} == set(KINDS)


def test_declared_attributes_survive_the_text():
    text = print_module(kernel("%p: ptr<f32>", "%c = vload %p {aligned=true, lanes=4, middle=(1, 3), sure=true} : f32"))
    assert print_module(parse_module(text)) == text
