"""Products of simdgroup matrices that a schedule made from `dot`: declarations, elements, the inner loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eas.base.types import Space
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.text import ADD, MUL, Expr, Lines, named
from eas.codegen.msl.types import type_name
from eas.ir import Arg, Inst, Value

_SIDE = 8
_MOST_UNROLLED = 8  # steps of k


def holds_matrices(m: MslEmitter, pointer: Value) -> bool:
    """Whether a pointer points into an array of simdgroup matrices."""
    base = m.bases[pointer]
    return isinstance(base, Value) and m.origin[base].op.name == "fragments"


def element(base: Expr, offset: Expr | None) -> str:
    """Element `offset` of this lane's part of an array of matrices: two of each."""
    at = "0" if offset is None else offset.text
    if at.isdigit():
        return f"{base.text}[{int(at) // 2}].thread_elements()[{int(at) % 2}]"
    assert offset is not None
    return f"{base.text}[{offset.at(MUL)} / 2].thread_elements()[{offset.at(MUL)} % 2]"


# A lane's two elements of a matrix; Metal does not say what type `thread_elements` has, only how it is laid out.
_ELEMENTS = """\
inline thread {t}2 &elements(thread simdgroup_{t}8x8 &matrix) {{
    return reinterpret_cast<thread {t}2 &>(matrix.thread_elements());
}}"""


def elements(m: MslEmitter, pointer: Value) -> str:
    """Both elements that this lane holds of the matrix behind a pointer, to be read or assigned."""
    base, offset = m.pointer(pointer)
    return _both(m, pointer, f"{base.text}[{quotient(offset, 2)}]")


def _both(m: MslEmitter, pointer: Value, matrix: str) -> str:
    t = type_name(pointer.dtype)
    ours = m.library.add(f"elements:{t}", _ELEMENTS.format(t=t))
    return f"{ours}({matrix})"


def quotient(offset: Expr | None, n: int) -> str:
    """An offset in elements as one in groups of n."""
    if offset is None:
        return "0"
    return str(int(offset.text) // n) if offset.text.isdigit() else f"{offset.at(MUL)} / {n}"


def _fragments(m: MslEmitter, inst: Inst) -> None:
    name = m.scope.claim(inst.out.hint or "acc")
    m.lines.add(f"simdgroup_{type_name(inst['dtype'])}8x8 {name}[{inst['size'] // 2}];")
    m.exprs[inst.out] = named(name)


def _fill(m: MslEmitter, inst: Inst) -> None:
    pointer, value = inst.operands
    acc, what = _matrix(m, pointer), m.use(value)
    with _each(m, inst["count"], "i") as i:
        m.lines.add(f"{acc(i)} = make_filled_simdgroup_matrix<{type_name(value.dtype)}, 8, 8>({what.text});")


def _matrix(m: MslEmitter, pointer: Value) -> Callable[[str], str]:
    """The text of the matrix that is some matrices behind a pointer."""
    base, offset = m.pointer(pointer)
    if offset is None:
        return lambda i: f"{base.text}[{i}]"
    return lambda i: f"{base.text}[{_sum(f'({offset.text}) / 2', i)}]"


@contextmanager
def _each(m: MslEmitter, count: int, wish: str, step: int = 1, unroll: bool = True) -> Iterator[str]:
    """An unrolled loop over a counter; none where there is one step only."""
    if count == 1:
        yield "0"
        return
    if unroll:
        m.lines.add("#pragma unroll")
    with m.scope.block():
        name = m.scope.claim(wish)
        update = f"++{name}" if step == 1 else f"{name} += {step}"
        with m.lines.block(f"for (int {name} = 0; {name} < {count * step}; {update})"):
            yield name


def _sum(*parts: str) -> str:
    return " + ".join(p for p in parts if p != "0") or "0"


def _times(count: str, factor: str) -> str:
    """A product; of numbers it is one."""
    if "0" in (count, factor):
        return "0"
    variable, _, number = count.rpartition(" * ")
    if number.isdigit() and factor.isdigit():
        return _times(variable, str(int(number) * int(factor))) if variable else str(int(number) * int(factor))
    return count if factor == "1" else f"{count} * {factor}"


def _mma(m: MslEmitter, inst: Inst) -> None:
    """Column by column of a and row by row of b: their matrices are loaded once for each step of k."""
    acc, a, b, a_row, b_row = inst.operands
    down, across, deep = inst["tiles"]
    own = a.type.space is Space.SCRATCH
    total = _matrix(m, acc)
    sides = [m.pointer(a)[0] if own else _corner(m, a), _corner(m, b)]
    rows = [m.use(r) for r in (a_row, b_row)]
    left, right = (m.scope.claim(f"{_base_name(m, p)}_tile") for p in (a, b))
    with _each(m, deep, "k", _SIDE, unroll=own or deep <= _MOST_UNROLLED) as k, _scope(m.lines, deep == 1):
        lefts, rights = (_tiles(m, p, name, count) for p, name, count in ((a, left, down), (b, right, across)))
        with _each(m, down, "i") as i:
            if own:
                _take(m, a, lefts(i), _sum(_times(i, str(deep)), "0" if k == "0" else f"{k} / {_SIDE}"))
            else:
                at = (_times(i, str(_SIDE)), k)
                m.lines.add(_load(lefts(i), sides[0], rows[0], at, inst["a_transposed"]))
        with _each(m, across, "j") as j:
            at = (k, _times(j, str(_SIDE)))
            m.lines.add(_load(rights(j), sides[1], rows[1], at, inst["b_transposed"]))
        with _each(m, down, "i") as i, _each(m, across, "j") as j:
            target = total(_sum(_times(i, str(across)), j))
            m.lines.add(f"simdgroup_multiply_accumulate({target}, {lefts(i)}, {rights(j)}, {target});")


def _tiles(m: MslEmitter, operand: Value, name: str, count: int) -> Callable[[str], str]:
    """Declare the matrices of an operand that are in use; tells how each is said."""
    m.lines.add(f"simdgroup_{type_name(operand.dtype)}8x8 {name}{'' if count == 1 else f'[{count}]'};")
    return lambda i: name if count == 1 else f"{name}[{i}]"


def _corner(m: MslEmitter, pointer: Value) -> Expr:
    """Where a simdgroup's matrices start; a place that takes more than a sum to find has a name."""
    at = m.address(pointer)
    if at.weight <= 1:
        return at
    name = m.scope.claim(f"{_base_name(m, pointer)}_corner")
    m.lines.add(f"{m.type_of(pointer)}{name} = {at.text};")
    return named(name)


def _move(m: MslEmitter, inst: Inst) -> None:
    """Matrices to or from memory, for lanes that do not know which elements they hold."""
    is_load = inst.op.name == "frag_load"
    acc, memory = inst.operands[:2] if is_load else inst.operands[1::-1]
    name, place, row = _matrix(m, acc), m.address(memory), m.use(inst.operands[2])
    down, across = inst["tiles"]
    with _each(m, down, "i") as i, _each(m, across, "j") as j:
        matrix = name(_sum(_times(i, str(across)), j))
        corner = _sum(place.at(ADD), _times(_times(i, str(_SIDE)), row.at(MUL)), _times(j, str(_SIDE)))
        m.lines.add(f"simdgroup_{'load' if is_load else 'store'}({matrix}, {corner}, {row.text});")


def _base_name(m: MslEmitter, pointer: Value) -> str:
    base = m.bases[pointer]
    return base.name if isinstance(base, Arg) else m.exprs[base].text


def _take(m: MslEmitter, pointer: Value, name: str, number: str) -> None:
    """A matrix of which this lane's two elements are in an array of its own."""
    base = m.pointer(pointer)[0].text
    if holds_matrices(m, pointer):
        m.lines.add(f"{name} = {base}[{number}];")
        return
    own = m.origin[base_value] if isinstance(base_value := m.bases[pointer], Value) else None
    if own is not None and own.attr("vector") == 2:
        which = base if own["size"] == 2 else f"{base}[{number}]"
        m.lines.add(f"{_both(m, pointer, name)} = {which};")
        return
    first = _times(f"({number})" if " " in number else number, "2")
    for e in (0, 1):
        m.lines.add(f"{name}.thread_elements()[{e}] = {base}[{_sum(first, str(e))}];")


@contextmanager
def _scope(lines: Lines, is_needed: bool) -> Iterator[None]:
    """Braces around names of a single step."""
    if not is_needed:
        yield
        return
    with lines.block(""):
        yield


def _load(name: str, pointer: Expr, row: Expr, at: tuple[str, str], is_transposed: bool) -> str:
    """Load the matrix whose corner is `at` (row, column); a turned one lies the other way in memory."""
    down, across = reversed(at) if is_transposed else at
    place = _sum(pointer.at(ADD), _times(down, row.at(MUL)), across)
    turned = ", ulong2(0, 0), true" if is_transposed else ""
    distance = row.text if row.text.isdigit() else f"ulong({row.text})"
    return f"simdgroup_load({name}, {place}, {distance}{turned});"


FRAGMENTS: dict[str, Callable[[MslEmitter, Inst], None]] = {
    "fragments": _fragments, "frag_fill": _fill, "frag_load": _move, "frag_store": _move, "frag_mma": _mma,
}  # fmt: skip
