"""The IR: immutable, typed SSA with regions, a source location on every instruction."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Literal

from eas.base.dtypes import DType
from eas.base.errors import EasError, InvalidIR, source_line
from eas.base.types import Space, Type
from eas.ops import TABLE, Op, RegionSig, Trait

__all__ = ["Arg", "DType", "IRModule", "Inst", "LaunchMode", "Loc", "Op", "Region", "Space", "Trait", "Type", "Value", "make", "verify", "walk"]

LaunchMode = Literal["spmd", "thread"]


_Positions = list[tuple[int | None, int | None, int | None, int | None]]
_MOST_DECODED = 16
_decoded: dict[int, tuple[CodeType, _Positions]] = {}  # of the codes that were asked about last, by identity: Python hashes all of a code


def _positions(code: CodeType) -> _Positions:
    """Where each instruction of a code is in the source; decoded once for many questions about few codes."""
    known: tuple[CodeType, _Positions] | None = _decoded.pop(id(code), None)
    positions = list(code.co_positions()) if known is None else known[1]
    for oldest in list(_decoded)[: 1 - _MOST_DECODED]:
        _decoded.pop(oldest, None)
    _decoded[id(code)] = code, positions
    return positions


class Loc:
    """A place in the user's source: frames innermost first, decoded only when somebody reads it."""

    __slots__ = ("_place", "frames")

    def __init__(self, frames: tuple[tuple[CodeType, int], ...]) -> None:
        self.frames = frames
        self._place: tuple[str, int, int, int] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loc) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[int, int], ...]:
        # By identity: CPython hashes and compares all of a code object.
        return tuple([(id(code), lasti) for code, lasti in self.frames])

    @staticmethod
    def _decode(code: CodeType, lasti: int) -> tuple[str, int, int, int]:
        positions = _positions(code)
        if lasti % 2 or not 0 <= lasti // 2 < len(positions):
            return code.co_filename, code.co_firstlineno, 0, 0
        line, end_line, col, end_col = positions[lasti // 2]
        whole = line is not None and line == end_line and col is not None and end_col is not None
        return code.co_filename, line or code.co_firstlineno, (col or 0) if whole else 0, (end_col or 0) if whole else 0

    @property
    def place(self) -> tuple[str, int, int, int]:
        """(filename, line, column, end column) of the innermost frame; columns 0, 0 if unknown."""
        if self._place is None:
            self._place = self._decode(*self.frames[0])
        return self._place

    @property
    def line(self) -> int:
        return self.place[1]

    @property
    def filename(self) -> str:
        return self.place[0]

    def source(self) -> str:
        """The text under the caret, or the whole line where columns are unknown."""
        filename, line, col, end = self.place
        text = source_line(filename, line).rstrip("\n")
        return _columns(text, col, end)[1] if end else text.strip()

    def decoded(self) -> list[tuple[str, int, int, int]]:
        """(filename, line, column, end column) of every frame, innermost first."""
        return [self.place, *(self._decode(code, lasti) for code, lasti in self.frames[1:])]

    def describe(self) -> Sequence[str]:
        return describe_frames(self.decoded())

    def __str__(self) -> str:
        return f"{os.path.basename(self.filename)}:{self.line}"


def describe_frames(frames: Sequence[tuple[str, int, int, int]]) -> list[str]:
    """The text of a place: the innermost frame with its source line, and the calls that led there."""
    filename, line, col, end = frames[0]
    lines = [f"at {os.path.basename(filename)}:{line}"]
    text = source_line(filename, line).rstrip("\n")
    if text.strip():
        before, marked = _columns(text, col, end)
        indent = len(text) - len(text.lstrip())
        lines.append("  " + text.strip())
        if end:
            lines.append("  " + " " * (len(before) - indent) + "^" * max(1, len(marked)))
    return lines + [f"called at {os.path.basename(name)}:{line}" for name, line, _, _ in frames[1:]]


def _columns(text: str, col: int, end: int) -> tuple[str, str]:
    """Split a line at CPython's column offsets, which count UTF-8 bytes."""
    raw = text.encode()
    return raw[:col].decode(errors="replace"), raw[col:end].decode(errors="replace")


class Value:
    """One SSA value. Equal only to itself; `hint` is the user's name for it, never its meaning."""

    __slots__ = ("hint", "type")

    def __init__(self, type: Type, hint: str = "") -> None:
        self.type = type
        self.hint = hint

    def __repr__(self) -> str:
        return f"%{self.hint or '?'}: {self.type}"

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A list of instructions with parameters; the last one yields."""

    params: tuple[Value, ...]
    body: tuple[Inst, ...]

    @property
    def yields(self) -> tuple[Value, ...]:
        return self.body[-1].operands

    @property
    def signature(self) -> RegionSig:
        return RegionSig(tuple(p.type for p in self.params), tuple(v.type for v in self.yields))


AttrItems = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Inst:
    """One instruction; `attrs` is sorted by name."""

    op: Op
    operands: tuple[Value, ...]
    attrs: AttrItems
    outs: tuple[Value, ...]
    regions: tuple[Region, ...] = ()
    loc: Loc | None = None

    def __getitem__(self, name: str) -> Any:
        """The attribute `name`."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"{self.op.name} has no attribute {name}")

    @property
    def out(self) -> Value:
        """The only result."""
        (value,) = self.outs
        return value

    def key(self) -> tuple[object, ...]:
        """Equal for two instructions that compute the same; -0.0 and 0.0 differ."""
        return _key(self, {})

    def with_operands(self, operands: Sequence[Value]) -> Inst:
        """The same instruction over other operands of the same types; it keeps its results."""
        return replace(self, operands=tuple(operands))


def _key(inst: Inst, local: dict[Value, int]) -> tuple[object, ...]:
    """`local` numbers what the regions around define: equal regions hold different values."""
    operands = tuple([local.get(v, v) for v in inst.operands]) if local else inst.operands
    # Result types follow from the rest, by the op's rule.
    attrs = tuple([(k, v.hex() if type(v) is float else v) for k, v in inst.attrs])
    if not inst.regions:
        return (inst.op.name, operands, attrs)
    return (inst.op.name, operands, attrs, tuple([_region_key(r, local) for r in inst.regions]))


def _region_key(region: Region, local: dict[Value, int]) -> tuple[object, ...]:
    for param in region.params:
        local[param] = len(local)
    parts: list[object] = [tuple([p.type for p in region.params])]
    for inst in region.body:
        parts.append(_key(inst, local))
        for out in inst.outs:
            local[out] = len(local)
    return tuple(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Arg:
    """A runtime argument: a buffer when its type is a pointer, else a scalar."""

    name: str
    value: Value
    attrs: AttrItems = ()

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def is_buffer(self) -> bool:
        return self.type.is_pointer

    def attr(self, name: str, default: Any = None) -> Any:
        return next((v for k, v in self.attrs if k == name), default)


@dataclass(frozen=True, slots=True, eq=False)
class IRModule:
    """A whole kernel. `attrs`: `math`, `threads` (thread mode), and what passes record."""

    name: str
    args: tuple[Arg, ...]
    body: Region
    mode: LaunchMode = "spmd"
    attrs: AttrItems = ()
    loc: Loc | None = field(default=None, repr=False)

    def attr(self, name: str, default: Any = None) -> Any:
        return next((v for k, v in self.attrs if k == name), default)

    def with_attrs(self, **new: Any) -> IRModule:
        return replace(self, attrs=sorted_attrs({**dict(self.attrs), **new}))

    def with_body(self, body: Region) -> IRModule:
        return replace(self, body=body)

    def arg(self, name: str) -> Arg:
        return next(a for a in self.args if a.name == name)

    def __str__(self) -> str:
        from eas.ir.text import print_module

        return print_module(self)


def sorted_attrs(attrs: Mapping[str, Any]) -> AttrItems:
    return tuple(sorted(attrs.items()))


def make(name: str, operands: Sequence[Value] = (), attrs: Mapping[str, Any] | None = None, regions: Sequence[Region] = (), loc: Loc | None = None, hints: Sequence[str] = ()) -> Inst:
    """A new instruction with results typed by its row; a refusal carries `loc`."""
    op = TABLE[name]
    given = attrs or {}
    try:
        types = op.rule([v.type for v in operands], given, [r.signature for r in regions])
    except EasError as error:
        raise error.at(loc) from None
    outs = tuple([Value(t, hints[i] if i < len(hints) else "") for i, t in enumerate(types)])
    return Inst(op, tuple(operands), sorted_attrs(given) if given else (), outs, tuple(regions), loc)


def walk(region: Region) -> Iterator[Inst]:
    """Every instruction, outer before inner, in program order."""
    left = [iter(region.body)]
    while left:
        for inst in left[-1]:
            yield inst
            if inst.regions:
                left += [iter(inner.body) for inner in reversed(inst.regions)]
                break
        else:
            left.pop()


def verify(module: IRModule) -> IRModule:
    """Raise `InvalidIR` unless every rule of the IR holds; returns the module."""
    visible: set[Value] = set()
    for arg in module.args:
        _define(visible, arg.value, f"argument {arg.name}")
    if module.body.params:
        raise InvalidIR(f"{module.name}: the kernel body takes no parameters")
    _verify_region(module.body, visible, module)
    return module


def _define(visible: set[Value], value: Value, what: str) -> None:
    if value in visible:
        raise InvalidIR(f"{what}: {value!r} is defined twice")
    visible.add(value)


def _verify_region(region: Region, outer: set[Value], module: IRModule) -> None:
    visible = set(outer)
    for param in region.params:
        _define(visible, param, "region parameter")
    if not region.body or not region.body[-1].op.has(Trait.TERMINATOR):
        raise InvalidIR(f"{module.name}: a region does not end with yield")
    for inst in region.body:
        if inst.op.has(Trait.TERMINATOR) and inst is not region.body[-1]:
            raise InvalidIR(f"{module.name}: yield in the middle of a region").at(inst.loc)
        for operand in inst.operands:
            if operand not in visible:
                raise InvalidIR(f"{inst.op.name} uses {operand!r} before its definition").at(inst.loc)
        if inst.op.has(Trait.THREAD) and module.mode != "thread" and not module.attr("spread"):
            raise InvalidIR(f"{inst.op.name} outside of thread mode").at(inst.loc)
        if len(inst.regions) != inst.op.regions:
            raise InvalidIR(f"{inst.op.name} has {len(inst.regions)} regions, needs {inst.op.regions}").at(inst.loc)
        for inner in inst.regions:
            _verify_region(inner, visible, module)
        types = inst.op.rule([v.type for v in inst.operands], dict(inst.attrs), [r.signature for r in inst.regions])
        if types != tuple(v.type for v in inst.outs):
            raise InvalidIR(f"{inst.op.name} results are {[str(v.type) for v in inst.outs]}, its rule says {[str(t) for t in types]}").at(inst.loc)
        for out in inst.outs:
            _define(visible, out, inst.op.name)
