"""The lines of a kernel as text: names, places, numbers, attributes. `text` reads them back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from eas.base.dtypes import DType
from eas.base.errors import InvalidIR
from eas.base.types import Type
from eas.ir.inst import Arg, AttrItems, Inst, Loc, Region, Value
from eas.ops import TABLE


class Names:
    """Unique printable names: the user's own where there is one, else numbers."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._used: dict[str, int] = {}
        self._numbers = 0

    def define(self, value: Value) -> str:
        hint = value.hint
        name = self._fresh_number() if not hint or hint.isdigit() else self._fresh_name(hint)
        self._names[value] = name
        return name

    def _fresh_number(self) -> str:
        name = str(self._numbers)
        self._numbers += 1
        return name

    def _fresh_name(self, hint: str) -> str:
        base = hint.split(".")[0]
        count = self._used.get(base, -1) + 1
        self._used[base] = count
        return base if count == 0 else f"{base}.{count}"

    def __getitem__(self, value: Value) -> str:
        return self._names[value]


class LocTable:
    """Numbers the places of a module by first appearance, so that texts hold no line numbers."""

    def __init__(self, places: Sequence[Loc] = ()) -> None:
        self.places = list(places)
        self._index = {loc: i for i, loc in enumerate(self.places)}

    def index(self, loc: Loc) -> int:
        if loc not in self._index:
            self._index[loc] = len(self.places)
            self.places.append(loc)
        return self._index[loc]


class Printer:
    """The lines of a kernel; with `locs`, every instruction ends with `@ place`."""

    def __init__(self, locs: LocTable | None) -> None:
        self.names = Names()
        self.locs = locs

    def kernel(self, name: str, args: Sequence[Arg], mode: str, attrs: AttrItems, body: Region) -> Iterator[str]:
        shown = ", ".join(f"{self.define(a.value)}: {a.type}{_attrs(a.attrs)}" for a in args)
        yield f"kernel {name if _WORD.fullmatch(name) else _quoted(name)}({shown}) {mode}{_attrs(attrs)} {{"
        for inst in body.body:
            yield from self.inst(inst, "  ")
        yield "}"

    def define(self, value: Value) -> str:
        return _reference(self.names.define(value))

    def inst(self, inst: Inst, indent: str) -> Iterator[str]:
        words = [inst.op.name]
        if inst.op.name == "const":
            words.append(format_number(inst["value"], inst.out.dtype))
        if inst.operands:
            words.append(", ".join(_reference(self.names[v]) for v in inst.operands))
        hidden = _implied_attrs(inst.op.name)
        text = " ".join(words) + _attrs(tuple(kv for kv in inst.attrs if kv[0] not in hidden))
        regions = [self.region(r, indent) for r in inst.regions]
        if inst.outs:
            outs = ", ".join(self.define(v) for v in inst.outs)
            text = f"{outs} = {text} : {', '.join(str(v.type) for v in inst.outs)}"
        place = f" @ {self.locs.index(inst.loc)}" if self.locs is not None and inst.loc is not None else ""
        lines = (indent + text + place).split("\n")
        for head, *rest in regions:
            lines[-1] += f" {head}"
            lines += rest
        yield from lines

    def region(self, region: Region, indent: str) -> list[str]:
        params = ", ".join(f"{self.define(p)}: {p.type}" for p in region.params)
        lines = [f"({params}) {{"]
        for inst in region.body:
            lines += self.inst(inst, indent + "  ")
        return [*lines, indent + "}"]


def _implied_attrs(op_name: str) -> tuple[str, ...]:
    """Attributes that other parts of the line already say."""
    implied = ("type",) if "type" in TABLE[op_name].attributes else ()
    return (*implied, "value") if op_name == "const" else implied


def format_number(value: float | int | bool, dtype: DType) -> str:
    """The shortest text that parses back to the same number of `dtype`."""
    if dtype.is_bool or isinstance(value, bool):
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if value != value:
        return "nan"
    narrow = np.float32(value) if dtype.bits <= 32 else np.float64(value)
    text = str(narrow)
    return text if any(c in text for c in ".einf") else text + ".0"


def _attrs(items: Sequence[tuple[str, Any]]) -> str:
    return " {" + ", ".join(f"{k}={_attr(v)}" for k, v in items) + "}" if items else ""


def _attr(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "nan" if value != value else repr(value)
    if isinstance(value, (int, DType, Type)):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return "(" + "".join(_attr(v) + "," for v in value) + ")"
    if value is None:
        return "none"
    raise InvalidIR(f"an attribute cannot hold {value!r}")


def _quoted(text: str) -> str:
    """A string on one line; control characters, separators of lines and lone surrogates are escaped."""
    return '"' + _UNSAFE.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text) + '"'


def _reference(name: str) -> str:
    return f"%{name}" if _NAME.fullmatch(name) else f"%{_quoted(name)}"


_WORD, _NAME = re.compile(r"[A-Za-z_]\w*"), re.compile(r"[\w.]+")
_UNSAFE = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
