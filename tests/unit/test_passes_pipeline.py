"""optimise: the order of the passes, when it stops, and whom it tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

import eas.passes as passes
from eas.base.errors import InvalidIR
from eas.ir import IRModule, Loc, Region
from tests.unit.ir_texts import body_text, kernel

ARGS = "%p: ptr<f32>, %n: i32"
MASKED = """
%c = const 2 : i32
%two = mul %c, %c : i32
%z = const 0 : i32
%k = add %n, %z : i32
%x = mul %k, %two : i32
%y = mul %n, %two : i32
%t = eq %x, %y : bool
%v = load %p, %t : f32
store %p, %v, %t
"""


def test_passes_clear_the_way_for_each_other():
    # x + 0 = x makes the products equal, that makes the mask true, that makes it superfluous.
    assert body_text(passes.optimise(kernel(ARGS, MASKED))) == "%v = load %p : f32\nstore %p, %v"


def test_settled_module_is_returned_as_it_is():
    module = passes.optimise(kernel(ARGS, MASKED))
    assert passes.optimise(module) is module


def test_noopt_runs_only_the_required_passes():
    module = kernel(ARGS, MASKED)
    assert passes.optimise(module, noopt=True) is module
    assert passes.pipeline()[len(passes.REQUIRED) :] == passes.OPTIONAL


def test_observer_hears_of_every_pass_that_changed_something():
    heard: list[tuple[str, IRModule]] = []
    module = passes.optimise(kernel(ARGS, MASKED), observe=lambda name, module: heard.append((name, module)))
    assert [name for name, _ in heard][:3] == ["fold_constants", "simplify_algebra", "merge_common"]
    assert heard[-1][1] is module


def break_module(module: IRModule) -> IRModule:
    """A pass with a bug: it loses the first instruction."""
    return module.with_body(Region((), module.body.body[1:]))


def test_verification_names_the_pass(monkeypatch):
    monkeypatch.setattr(passes, "OPTIONAL", (break_module,))
    monkeypatch.setenv("EAS_VERIFY", "1")
    with pytest.raises(InvalidIR, match=r"^after break_module: mul uses %c: i32 before its definition"):
        passes.optimise(kernel(ARGS, MASKED))


def test_places_follow_the_instructions():
    module = kernel(ARGS, MASKED)
    place = compile("1 + 1", "kernel.py", "eval")
    loc = Loc(((place, 0),))
    body = tuple(replace(inst, loc=loc) for inst in module.body.body)
    module = module.with_body(Region((), body))
    assert all(inst.loc is loc for run in passes.pipeline() for inst in run(module).body.body)
