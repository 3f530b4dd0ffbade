"""Every row of the op table has a test here: a new op without one fails by name."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from eas.ops import TABLE, Trait

FILES = [
    "test_atomics", "test_casts", "test_control", "test_dot", "test_maps_and_combines", "test_math", "test_memory", "test_ops",
    "test_order", "test_orders", "test_pointer_blocks", "test_random", "test_reductions", "test_shapes", "test_simd", "test_thread_mode",
]  # fmt: skip
LANGUAGE = {name for name, op in TABLE.items() if not op.has(Trait.SCHEDULED)}  # what kernels can be made of
COVERED = {name: import_module(f"tests.backend.{name}").COVERS for name in FILES}


def test_every_op_row_is_covered():
    missing = LANGUAGE - set().union(*COVERED.values())
    assert not missing, f"no backend test covers {', '.join(sorted(missing))}"


@pytest.mark.parametrize("name", FILES)
def test_registries_name_only_rows(name):
    unknown = COVERED[name] - LANGUAGE
    assert not unknown, f"{name} claims ops that do not exist: {', '.join(sorted(unknown))}"


def test_every_test_file_is_in_the_list():
    claimed = {p.stem for p in Path(__file__).parent.glob("test_*.py") if any(isinstance(n, ast.Assign) and n.targets[0].id == "COVERS" for n in ast.parse(p.read_text()).body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name))}
    assert claimed == set(FILES)
