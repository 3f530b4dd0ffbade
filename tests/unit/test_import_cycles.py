"""Modules do not import each other in circles: at the top, in functions and under TYPE_CHECKING."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

EAS = Path(__file__).parents[2] / "eas"


def imported(tree: ast.AST) -> set[str]:
    """Every name that may be a module, of all imports of a file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names.update(a.name for a in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names.update((module, *(f"{module}.{a.name}" for a in aliases)))
    return names


def graph(folder: Path) -> dict[str, set[str]]:
    """Module -> the modules of the folder that it imports; a package is no import of what is in it."""
    files = {".".join(p.relative_to(EAS.parent).with_suffix("").parts).removesuffix(".__init__"): p for p in folder.rglob("*.py")}
    return {
        name: {n for n in imported(ast.parse(path.read_text(encoding="utf-8"))) & files.keys() if not f"{name}.".startswith(f"{n}.")}
        for name, path in files.items()
    }


@pytest.mark.parametrize("folder", ["schedule"])
def test_no_circle(folder):
    found = graph(EAS / folder)
    assert len(found) > 1
    graphlib.TopologicalSorter(found).prepare()  # says which modules make a circle, if some do


def test_imports_in_functions_and_for_types_count():
    sources = {"x.a": "def f():\n    from x.b import g", "x.b": "if TYPE_CHECKING:\n    from x import a"}
    found = {name: imported(ast.parse(source)) & sources.keys() for name, source in sources.items()}
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(found).prepare()
