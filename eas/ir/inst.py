"""Instructions: immutable, typed SSA with regions, a source location on each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from eas.base.dtypes import DType
from eas.base.errors import EasError, source_line
from eas.base.types import Type
from eas.ops import TABLE, Op, RegionSig

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
        """The attribute `name`; None for an optional one that is absent."""
        for key, value in self.attrs:
            if key == name:
                return value
        declared = self.op.attributes.get(name)
        if declared is None or declared.is_needed:
            raise KeyError(f"{self.op.name} has no attribute {name}")
        return None

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or the default: for questions to ops of all kinds."""
        return next((v for k, v in self.attrs if k == name), default)

    @property
    def out(self) -> Value:
        """The only result."""
        (value,) = self.outs
        return value

    def key(self) -> tuple[object, ...]:
        """Equal for two instructions that compute the same; -0.0 and 0.0 differ."""
        return _key(self, {})

    def with_attrs(self, **new: Any) -> Inst:
        """The same instruction with these attributes too; it keeps its results."""
        return replace(self, attrs=sorted_attrs({**dict(self.attrs), **new}))

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
