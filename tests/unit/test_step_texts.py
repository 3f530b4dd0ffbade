"""Each step of both schedules on a tiny module: IR text before and after, in `steps/TARGET/STEP.ir`.

A file is a line `# given name=value, ...` where the step asks its record for something, the module before, `---`, the module after, and where
the step notes something in the record, `---` and that. `pytest tests/unit/test_step_texts.py --update-golden` writes what follows the module before.
"""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import fields
from pathlib import Path

import pytest

from eas.ir import verify
from eas.ir.text import parse_module, print_module
from eas.schedule.cpu_steps import CPU_STEPS, CpuRecord
from eas.schedule.gpu.target import DEFAULT
from eas.schedule.gpu_steps import METAL_STEPS, MetalRecord
from eas.schedule.target import AVX2

FOLDER = Path(__file__).parent / "steps"
TABLES = {"cpu": (CPU_STEPS, CpuRecord, AVX2), "metal": (METAL_STEPS, MetalRecord, DEFAULT)}
STEPS = {f"{target}/{step.name}": (step, *known) for target, (steps, *known) in TABLES.items() for step in steps}


def _notes(record):
    """The plain facts of a record, as lines."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in ("target", "copies", "_near")}
    return [f"{name} = {value!r}" for name, value in values.items()]


@pytest.mark.parametrize("name", STEPS)
def test_step(name, request):
    step, make_record, machine = STEPS[name]
    path = FOLDER / f"{name}.ir"
    head, *_ = path.read_text().split("\n---\n")
    given = dict(part.split("=") for line in re.findall(r"^# given (.*)$", head, re.M) for part in line.split(", "))
    record = make_record(machine, **{key: literal_eval(value) for key, value in given.items()})
    module = verify(parse_module(re.sub(r"^#.*\n", "", head, flags=re.M)))
    assert step.when is None or step.when(module, record)
    text, notes = print_module(module), _notes(record)
    after = print_module(verify(step.run(module, record)))
    assert print_module(module) == text, "a step changed its input"
    noted = [line for line in _notes(record) if line not in notes]
    assert after != text or noted, "the step has nothing to do here"
    whole = "\n---\n".join([re.sub(r"^kernel(.|\n)*", "", head, flags=re.M) + text.strip(), after.strip(), *(["\n".join(noted)] if noted else [])]) + "\n"
    if request.config.getoption("--update-golden"):
        path.write_text(whole)
    assert path.read_text() == whole


def test_every_step_has_a_text():
    assert {str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.ir")} == set(STEPS)
