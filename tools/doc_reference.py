"""The pages of docs/ that are generated from the code: ops, accuracy, environment, dtypes."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

from eas.base import config, dtypes
from eas.base.dtypes import DType
from eas.base.errors import EasError
from eas.ops import TABLE, Op, Trait
from eas.ops.dot import accumulator
from tools.doc_gallery import make_gallery

Row = Sequence[str]


# --- Markdown -------------------------------------------------------------------------------------


def table(header: Row, rows: Iterable[Row]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


# --- docs/ops.md ----------------------------------------------------------------------------------

FAMILIES = {
    "index": "Constants and ids",
    "elementwise": "Elementwise",
    "memory": "Memory",
    "reduce": "Reductions, scans, sorting",
    "dot": "Matrix product",
    "shape": "Shapes",
    "atomic": "Atomics",
    "simd": "Simdgroups",
    "random": "Random numbers",
    "control": "Control flow, messages, hints",
}
# Rows that no kernel can name: they are made from the others when a kernel is scheduled for a target.
LANGUAGE = [op for op in TABLE.values() if not op.has(Trait.SCHEDULED)]
SCHEDULED = [op for op in TABLE.values() if op.has(Trait.SCHEDULED)]
assert set(FAMILIES) == {op.family for op in LANGUAGE}, "a family without a title"
DTYPE_GROUPS: tuple[tuple[str, tuple[DType, ...]], ...] = (
    ("bool", (dtypes.bool_,)),
    ("ints", tuple(d for d in dtypes.ALL if d.is_int)),
    ("floats", tuple(d for d in dtypes.ALL if d.is_float and not d.is_storage_only)),
    ("fp8", tuple(d for d in dtypes.ALL if d.is_storage_only)),
)


def make_ops() -> str:
    parts = [
        "# Function and op reference\n\n"
        "What kernels call comes first: the functions of `eas.mk`. Behind it stand, for those who read IR, its ops, one row of `eas/ops/` "
        "each, and the ops of scheduled IR. [cheat-sheet.md](cheat-sheet.md) is the same on one page.\n\n"
        "## Functions of `eas.mk`\n",
        *_mk_sections(),
        "## Ops\n\n"
        "In *operands*, `x?` may be left out and `*xs` is any number. *Dtypes* are those of the operands; a dash means that "
        "the type rule of the op decides. `ints` are i8 to i64 and u8 to u64, `floats` are f16, bf16, f32 and f64, `fp8` "
        "are f8e4m3 and f8e5m2. How exact each op is stands in [accuracy.md](accuracy.md).\n",
    ]
    parts.append(table(("trait", "meaning"), ((code(_trait_name(t)), doc) for t, doc in TRAITS.items())))
    for family, title in FAMILIES.items():
        parts.append(f"### {title}\n")
        parts.append(_op_table([op for op in LANGUAGE if op.family == family]))
    parts.append(
        "## Scheduled IR\n\n"
        "Ops that are not part of the language: no kernel can name them, and the interpreter does not know them. "
        "`eas/schedule/` puts them in place of others when a kernel is compiled for a CPU; `EAS_DEBUG=5` shows the result.\n"
    )
    parts.append(_op_table(SCHEDULED))
    return "\n".join(parts)


# The meaning of a trait is the comment beside it, so that it is written once.
TRAITS = {Trait[name]: doc for name, doc in re.findall(r"(\w+) = auto\(\)  # (.*)", inspect.getsource(Trait))}
assert len(TRAITS) == len(Trait), "a trait without a comment"


def _op_table(ops: Iterable[Op]) -> str:
    return table(("op", "operands", "attributes", "dtypes", "traits", "meaning"), map(_op_row, ops))


def _op_row(op: Op) -> Row:
    traits = " ".join(_trait_name(t) for t in TRAITS if op.has(t))
    doc = op.doc + (f" Regions: {op.regions}." if op.regions else "")
    return (code(op.name), code(op.operands), code(op.attrs), _dtype_names(op.dtypes), traits, doc)


def _trait_name(trait: Trait) -> str:
    return (trait.name or "").lower()


def _dtype_names(allowed: Sequence[DType]) -> str:
    """`ints, f16, f32`: whole groups by their name, the others one by one."""
    if set(allowed) == set(dtypes.ALL):
        return "any"
    names = []
    for group, members in DTYPE_GROUPS:
        inside = [d.name for d in members if d in allowed]
        names += [group] if len(inside) == len(members) else inside
    return ", ".join(names) or "-"


# The modules that the functions of `eas.mk` are defined in, in reading order.
MK_TITLES = {
    "index": "Ids and filled blocks",
    "sizes": "Sizes",
    "memory": "Loads, stores, atomics",
    "math": "Elementwise functions",
    "activation": "Activation functions",
    "cast": "Conversions",
    "reduce": "Reductions and scans",
    "fold": "Reductions and scans by a function of your own",
    "order": "Sorting and counting",
    "shape": "Shape functions",
    "dot": "Products",
    "random": "Random bits and numbers",
    "thread": "Thread mode",
    "misc": "Checks, messages, hints, loops",
    "annotations": "Annotations of parameters",
}


def _mk_sections() -> Iterator[str]:
    """One table per module, then the methods and the names that are no functions."""
    mk = importlib.import_module("eas.mk")
    by_module: dict[str, list[tuple[str, Any]]] = {}
    for name in public_names(mk):
        value = getattr(mk, name)
        if inspect.isroutine(value):
            by_module.setdefault(inspect.unwrap(value).__module__.split(".")[-1], []).append((name, value))
    for module in sorted(by_module, key=_reading_order):
        functions = by_module[module]
        doc = _first_line(importlib.import_module(inspect.unwrap(functions[0][1]).__module__))
        yield f"### {MK_TITLES.get(module, module)}\n\n{doc}\n"
        yield table(("function", "meaning"), ((code(_signature(n, f)), _first_line(f)) for n, f in functions))
    methods = importlib.import_module("eas.frontend.operators").Methods
    listed = ", ".join(code(n) for n in sorted(vars(methods)) if not n.startswith("_"))
    yield f"### Methods of values\n\n{listed}. Each is the function of that name; `to` is `cast`, `T` is `trans`.\n"
    yield "### Dtypes and other names\n"
    others = [n for n in public_names(mk) if not inspect.isroutine(getattr(mk, n))]
    yield table(("name", "what it is"), ((code(f"mk.{n}"), _describe(getattr(mk, n))) for n in others))


def _reading_order(module: str) -> tuple[int, str]:
    known = list(MK_TITLES)
    return (known.index(module) if module in known else len(known), module)


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or everything without an underscore that is no module."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [n for n, v in vars(module).items() if not n.startswith("_") and not isinstance(v, ModuleType)]


def _signature(name: str, fn: Any) -> str:
    """`mk.load(pointer, offsets=None, ...)`: names and defaults, without annotations."""
    try:
        signature = inspect.signature(fn)
    except ValueError:  # some builtins have none
        return f"mk.{name}(...)"
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"mk.{name}{signature.replace(parameters=plain, return_annotation=signature.empty)}"


def _first_line(thing: FunctionType | ModuleType | type) -> str:
    doc = inspect.getdoc(thing) or ""
    return doc.split("\n", 1)[0]


def _describe(value: object) -> str:
    if isinstance(value, DType):
        return f"the dtype {value.name}"
    return _first_line(value) if isinstance(value, type) else f"{type(value).__name__} {value!r}"


# --- docs/accuracy.md -----------------------------------------------------------------------------

FLOATS = (dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64)
OTHERS = (("ints", DTYPE_GROUPS[1][1]), ("bool", DTYPE_GROUPS[0][1]), ("fp8", DTYPE_GROUPS[3][1]))
# Ops whose result is wider than their operands: the bound is one of the result's dtype.
RESULT_DTYPE: dict[str, Callable[[DType], DType]] = {"dot": accumulator, "mma": accumulator}


def make_accuracy() -> str:
    order = list(FAMILIES)
    ops = sorted(LANGUAGE, key=lambda op: order.index(op.family))
    listed = [op for op in ops if op.dtypes]
    rest = [op for op in ops if not op.dtypes]
    intro = (
        "# Accuracy\n\n"
        "How far a backend may be from the NumPy reference of an op. *exact* means the same number, and NaN where the "
        "reference has NaN; *n ulp* means at most n units in the last place of the result's dtype; a dash means that the op "
        "does not take the dtype. f16 and bf16 operands are computed in f32 and rounded once. The interpreter is the "
        "reference itself. A real Metal device may flush subnormal numbers to zero.\n"
    )
    header = ("op", *(d.name for d in FLOATS), *(name for name, _ in OTHERS), "note")
    exact = ", ".join(code(op.name) for op in rest)
    outro = (
        "The other ops take operands of any type or none, and add no error of their own: " + exact + ". "
        "`reduce` and `scan` are as exact as their combine region; the order in which they combine is not specified, but it "
        "is fixed for a compiled variant and does not depend on the number of threads (see [numbers.md](numbers.md)).\n"
    )
    return "\n".join([intro, table(header, map(_accuracy_row, listed)), outro])


def _accuracy_row(op: Op) -> Row:
    floats = [_bound(op, d) for d in FLOATS]
    groups = [_group_bound(op, members) for _, members in OTHERS]
    return (code(op.name), *floats, *groups, op.accuracy.note)


def _bound(op: Op, dtype: DType) -> str:
    if dtype not in op.dtypes:
        return "-"
    widen = RESULT_DTYPE.get(op.name)
    return op.accuracy.text(widen(dtype) if widen else dtype)


def _group_bound(op: Op, members: Sequence[DType]) -> str:
    texts = {_bound(op, d) for d in members} - {"-"}
    assert len(texts) <= 1, f"{op.name}: the dtypes of one column differ"
    return next(iter(texts), "-")


# --- docs/environment.md --------------------------------------------------------------------------


def make_environment() -> str:
    intro = (
        "# Environment variables\n\n"
        "Each variable is read at the moment it matters, so a change inside a running process has effect. An empty variable "
        "counts as unset. A value that is not allowed is an error that says what is. `python -m eas env` prints this table "
        "with the values that hold now, and names variables that look like ours but are not.\n"
    )
    rows = ((code(s.name), code(s.default) or "see meaning", s.kind.allowed, s.describe()) for s in config.SETTINGS)
    return "\n".join([intro, table(("variable", "default", "allowed", "meaning"), rows)])


# --- docs/dtypes.md -------------------------------------------------------------------------------


def make_dtypes() -> str:
    refused = "*refused*"
    matrix = [[code(a.name), *(_name_or(refused, dtypes.promote, a, b) for b in dtypes.ALL)] for a in dtypes.ALL]
    weak = [[code(d.name), *(_name_or(refused, dtypes.promote_weak, d, x) for x in WEAK)] for d in dtypes.ALL]
    alone = [[code(repr(x)), _name_or(refused, dtypes.weak_default, x)] for x in (True, 1, 2**31, 2**63, 2**64, 1.5)]
    division = [[code(d.name), _name_or(refused, dtypes.div_type, d)] for d in dtypes.ALL]
    return "\n".join([
        "# Dtypes and promotion\n\n## The dtypes\n",
        table(("dtype", "kind", "bytes", "in NumPy memory", "range", "other names"), map(_dtype_row, dtypes.ALL)),
        "Inside kernels they are `mk.f32`, `mk.i32` and so on; where a dtype is expected, its name as a string, a NumPy dtype and "
        "a torch dtype do as well. They are equal, too: `t.dtype == np.float32`, `== np.dtype('float32')` and `== torch.float32`, from both sides; "
        "`np.dtype(t.dtype)` is NumPy's, which lacks bf16 and fp8. fp8 types are for storage: they can be loaded, stored, moved and cast, not computed with. "
        "f64 is for the CPU: Metal has no such type.\n",
        "## Two typed operands\n\nThe dtype in which an operation on two values is computed:\n",
        table(("", *(code(d.name) for d in dtypes.ALL)), matrix),
        "Comparisons compare in that dtype and give bool. `+ - * // % << >>`, `min`, `max` and `abs` of bools count in i32.\n",
        "## A typed operand and a Python number\n\nPython numbers are weak: they take the dtype of the other operand when "
        "it can hold their kind.\n",
        table(("", *(code(repr(x)) for x in WEAK)), weak),
        "An int that does not fit the integer type is an error, not a wrap-around. NumPy numbers count as Python numbers. "
        "With several operands, the typed ones are promoted first and the numbers join last.\n",
        "## A number alone\n\nThe dtype of a number that meets no typed operand, and of a scalar argument of a kernel:\n",
        table(("number", "dtype"), alone),
        "## True division\n\nThe dtype of `a / b` whose operands promote to:\n",
        table(("operands", "a / b"), division),
        "## How this differs from NumPy and torch\n",
        "\n".join(f"- {note}" for note in dtypes.PROMOTION_NOTES) + "\n",
    ])  # fmt: skip


WEAK: tuple[bool | int | float, ...] = (True, 1, 300, -1, 1.5)


def _dtype_row(dtype: DType) -> Row:
    if dtype.is_float:
        extent = f"largest finite {dtype.max_finite:.6g}, {dtype.mantissa_bits + 1} bits of precision"
    else:
        extent = f"{dtype.min} to {dtype.max}"
    others = ", ".join(sorted(n for n, d in dtypes._BY_NAME.items() if d is dtype and n != dtype.name))
    return (code(dtype.name), dtype.kind.value, str(dtype.nbytes), code(str(dtype.np_storage)), extent, others)


def _name_or(refused: str, rule: Callable[..., DType], *args: object) -> str:
    try:
        return rule(*args).name
    except EasError:
        return refused


REFERENCE: dict[str, Callable[[], str]] = {
    "ops.md": make_ops,
    "accuracy.md": make_accuracy,
    "environment.md": make_environment,
    "dtypes.md": make_dtypes,
    "gallery.md": make_gallery,
}
