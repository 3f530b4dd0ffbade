"""The shape of eas/: who may import whom, how long files and functions get, what `import eas` loads."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EAS = Path(__file__).parents[2] / "eas"

# Low to high. A module may import its own group and every lower line. Names side by side form one
# group; groups on one line that are divided by `|` are siblings and do not import each other.
ORDER = """
base _version
ops
ir
analysis
passes | frontend mk
schedule
codegen | metal_sim metal_native metal_fake native runtime
interop _torch_mps
launch compiler lowering kernel tools explain
lazy
tensor
torch
lib
triton
testing
__init__ __main__ errors dtypes verify command_line
"""

# The same for what stands in the folder `schedule`.
SCHEDULE_ORDER = """
target kinds
rewrite
nest
elements
cpu | gpu
__init__ cpu_steps gpu_steps
"""

# path:function -> why it is one idea although it is long; empty is the goal.
LONG_FUNCTIONS: dict[str, str] = {}
LONG_FILES: dict[str, str] = {}
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_FOLDER_FILES = 600, 60, 25


def _places(order: str) -> dict[str, tuple[int, int]]:
    """Unit -> (level, group on that level)."""
    return {
        unit: (level, group)
        for level, line in enumerate(order.split("\n"))
        for group, units in enumerate(line.split("|"))
        for unit in units.split()
    }


PLACES, SCHEDULE_PLACES = _places(ORDER), _places(SCHEDULE_ORDER)
FILES = sorted(EAS.rglob("*.py"))


def _unit(path: Path) -> str:
    """The first name below `eas`: a top-level module or package."""
    return path.relative_to(EAS).parts[0].removesuffix(".py")


def _is_unit(name: str) -> bool:
    return (EAS / f"{name}.py").exists() or (EAS / name).is_dir()


def _unit_of_name(dotted: str) -> str | None:
    """`eas.ir.Inst` -> `ir`, `eas.Tensor` -> `__init__`, `numpy` -> None."""
    first, *rest = dotted.split(".")
    if first != "eas":
        return None
    return rest[0] if rest and _is_unit(rest[0]) else "__init__"


def _imported_names(node: ast.AST, package: list[str]) -> list[str]:
    """Full dotted names that one import statement or `import_module("...")` call asks for."""
    match node:
        case ast.Import(names=names):
            return [a.name for a in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            base = package[: len(package) - level + 1] if level else []
            prefix = ".".join([*base, *([module] if module else [])])
            return [f"{prefix}.{a.name}" for a in names]
        case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [name]
    return []


def _imports(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, unit) of every import of eas in a file: at the top, in functions, under TYPE_CHECKING."""
    package = ["eas", *path.relative_to(EAS).parts[:-1]]
    for node in ast.walk(tree):
        for name in _imported_names(node, package):
            if (unit := _unit_of_name(name)) is not None:
                yield node.lineno, unit  # type: ignore[attr-defined]  # every node with names has a line


def _may_import(importer: str, imported: str, places: dict[str, tuple[int, int]] = PLACES) -> bool:
    return importer == imported or places[imported][0] < places[importer][0] or places[imported] == places[importer]


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_every_unit_has_a_place():
    assert {_unit(p) for p in FILES} - set(PLACES) == set(), "give the new module a place in ORDER"


def test_imports_point_down():
    wrong = [
        f"{path.relative_to(EAS.parent)}:{line}: {_unit(path)} may not import {unit}"
        for path in FILES
        for line, unit in _imports(path, _parse(path))
        if not _may_import(_unit(path), unit)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("base", "ops", False),
        ("ir", "base", True),
        ("passes", "analysis", True),
        ("mk", "frontend", True),
        ("passes", "frontend", False),
        ("runtime", "codegen", False),
        ("runtime", "metal_sim", True),
        ("ir", "kernel", False),
        ("lib", "__init__", False),
    ],
)
def test_order_says_who_may_import_whom(importer, imported, allowed):
    assert _may_import(importer, imported) is allowed


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import eas.ir", ["eas.ir"]),
        ("from eas import ir, mk", ["eas.ir", "eas.mk"]),
        ("from eas.ir import Inst", ["eas.ir.Inst"]),
        ("from . import cpu", ["eas.runtime.cpu"]),
        ("from ..ir import Inst", ["eas.ir.Inst"]),
        ("def f():\n    import eas.ir", ["eas.ir"]),
        ("if TYPE_CHECKING:\n    from eas import ir", ["eas.ir"]),
        ("importlib.import_module('eas.kernel')", ["eas.kernel"]),
    ],
)
def test_every_form_of_import_is_seen(source, names):
    seen = [n for node in ast.walk(ast.parse(source)) for n in _imported_names(node, ["eas", "runtime"])]
    assert seen == names


def test_folders_of_schedule_stack():
    """Rewrites of block IR know no nests, the partition knows no lanes, and the two targets do not know each other."""
    edges = {(a.split(".")[2], b.split(".")[2]) for a, found in _graph().items() for b in found if a.count(".") > 1 and b.count(".") > 1 and a.startswith("eas.schedule.") and b.startswith("eas.schedule.")}
    assert sorted(edge for edge in edges if not _may_import(*edge, SCHEDULE_PLACES)) == []


@pytest.mark.parametrize(("importer", "imported", "allowed"), [("gpu", "cpu", False), ("cpu", "gpu", False), ("rewrite", "nest", False), ("nest", "rewrite", True), ("cpu", "elements", True)])
def test_order_of_schedule_says_who_may_import_whom(importer, imported, allowed):
    assert _may_import(importer, imported, SCHEDULE_PLACES) is allowed


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(EAS.parent).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _graph() -> dict[str, set[str]]:
    """Module -> the modules of eas that it imports: at the top, in functions, under TYPE_CHECKING."""
    modules = {_module_name(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = ["eas", *path.relative_to(EAS).parts[:-1]]
        asked = [n for node in ast.walk(_parse(path)) for n in _imported_names(node, package)]
        found = {n if n in modules else n.rpartition(".")[0] for n in asked}  # a module, or a name in one
        graph[name] = (found & modules.keys()) - {name}
    return graph


def _cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that all import each other, by any number of steps."""
    left, reach = set(graph), dict[str, set[str]]()
    while ends := {m for m in left if not graph[m] & left}:  # what imports nothing that is left is in no cycle
        left -= ends
    for module in left:
        seen, todo = set[str](), [module]
        while todo:
            new = (graph[todo.pop()] & left) - seen
            seen |= new
            todo += new
        reach[module] = seen
    found = {frozenset(m for m in reach[module] if module in reach[m]) for module in left if module in reach[module]}
    return [set(cycle) for cycle in sorted(found, key=lambda c: min(c))]


def test_modules_do_not_import_each_other_in_a_circle():
    wrong = [sorted(c) for c in _cycles(_graph())]
    assert wrong == [], "a class or function stands in the wrong module: move it below both"


@pytest.mark.parametrize(
    ("graph", "cycles"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [{"a", "b"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d", "a"}}, [{"a", "b", "c"}, {"d", "e"}]),
    ],
)
def test_cycles_are_found(graph, cycles):
    assert _cycles(graph) == cycles


def test_no_folder_has_too_many_files():
    folders = {str(f.relative_to(EAS.parent)): len(list(f.glob("*.py"))) for f in {p.parent for p in FILES}}
    assert {name: n for name, n in folders.items() if n > MAX_FOLDER_FILES} == {}


def test_no_file_is_too_long():
    lengths = {str(p.relative_to(EAS)): p.read_text(encoding="utf-8").count("\n") for p in FILES}
    long = {name: n for name, n in lengths.items() if n > MAX_FILE_LINES}
    assert long.keys() == LONG_FILES.keys(), long


def test_no_function_is_too_long():
    long = {
        f"{path.relative_to(EAS)}:{node.name}": size
        for path in FILES
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_import_eas_loads_neither_torch_nor_llvmlite():
    code = "import sys, eas; print(sorted({'torch', 'llvmlite'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=EAS.parent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_kernel_object_loads_neither_ir_nor_ops():
    """A launch from the disk cache needs none of the compiler."""
    code = "import sys, eas; eas.kernel; print(sorted(m for m in sys.modules if m.startswith(('eas.ir', 'eas.ops', 'eas.analysis', 'eas.passes', 'eas.codegen'))))"
    done = subprocess.run([sys.executable, "-c", code], cwd=EAS.parent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
