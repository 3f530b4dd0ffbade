"""IR as text: a printer and a parser that are each other's inverse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import InvalidIR
from eas.base.types import Space, Type
from eas.ir.inst import Arg, Inst, Loc, Region, Value, sorted_attrs
from eas.ir.module import IRModule, print_module
from eas.ir.printing import LocTable, Names, format_number
from eas.ops import TABLE

__all__ = ["LocTable", "Names", "format_number", "parse_module", "print_module"]

_UNESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")
_TOKEN = re.compile(r'\s*(?:(%(?:[\w.]+|"(?:[^"\\]|\\.)*"))|("(?:[^"\\]|\\.)*")|(-?(?:inf|nan)\b)|(-?\d[\w.]*(?:[+-]\d+)?)|([A-Za-z_][\w.]*)|([][(){}<>=:,@]))')


def parse_module(text: str, locs: LocTable | None = None) -> IRModule:
    """The module that `print_module` printed; `locs` gives back the places."""
    return _Parser(text, locs).module()


class _Parser:
    def __init__(self, text: str, locs: LocTable | None) -> None:
        self.tokens = list(self._tokenise(text))
        self.at = 0
        self.values: dict[str, Value] = {}
        self.locs = locs

    @staticmethod
    def _tokenise(text: str) -> Iterator[str]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                line = text.count("\n", 0, position) + 1
                raise InvalidIR(f"IR text, line {line}: cannot read {text[position : position + 20]!r}")
            position = match.end()
            yield match[match.lastindex or 0]

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if (got := self.next()) != token:
            raise InvalidIR(f"IR text: expected {token!r}, found {got!r} (token {self.at})")

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def define(self, name: str, type: Type) -> Value:
        hint = _unquoted(name[1:])
        value = self.values[name] = Value(type, "" if hint.isdigit() else hint)  # numbers are the printer's own
        return value

    def use(self, name: str) -> Value:
        if name not in self.values:
            raise InvalidIR(f"IR text: {name} is not defined")
        return self.values[name]

    def module(self) -> IRModule:
        self.expect("kernel")
        name = _unquoted(self.next())
        self.expect("(")
        args = []
        while not self.accept(")"):
            token = self.next()
            self.expect(":")
            value = self.define(token, self.type())
            args.append(Arg(_unquoted(token[1:]), value, self.attrs()))
            self.accept(",")
        mode = self.next()
        if mode not in ("spmd", "thread"):
            raise InvalidIR(f"IR text: unknown launch mode {mode!r}")
        attrs = self.attrs()
        body = self.block(())
        return IRModule(name, tuple(args), body, mode, attrs)  # type: ignore[arg-type]  # mode was checked

    def block(self, params: tuple[Value, ...]) -> Region:
        self.expect("{")
        body = []
        while not self.accept("}"):
            body.append(self.inst())
        return Region(params, tuple(body))

    def region(self) -> Region:
        self.expect("(")
        params = []
        while not self.accept(")"):
            token = self.next()
            self.expect(":")
            params.append(self.define(token, self.type()))
            self.accept(",")
        return self.block(tuple(params))

    def inst(self) -> Inst:
        out_names = []
        while self.peek().startswith("%"):
            out_names.append(self.next())
            self.accept(",")
        if out_names:
            self.expect("=")
        op = TABLE.get(name := self.next())
        if op is None:
            raise InvalidIR(f"IR text: unknown op {name!r}")
        literal = self.next() if op.name == "const" else ""
        operands = []
        while self.peek().startswith("%") and self.tokens[self.at + 1] not in ("=",) and not self._starts_outs():
            operands.append(self.use(self.next()))
            if not self.accept(","):
                break
        attrs = dict(self.attrs())
        types: list[Type] = []
        if out_names:
            self.expect(":")
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        if "type" in op.attributes:
            attrs["type"] = types[0]
        if literal:
            attrs["value"] = _number(literal, types[0].dtype)
        loc = self.place()
        regions = []
        while self.peek() == "(":
            regions.append(self.region())
        outs = tuple(self.define(n, t) for n, t in zip(out_names, types, strict=True))
        return Inst(op, tuple(operands), sorted_attrs(attrs), outs, tuple(regions), loc)

    def _starts_outs(self) -> bool:
        """Whether the names ahead are results of the next line (`%a, %b = ...`)."""
        i = self.at
        while self.tokens[i].startswith("%"):
            i += 1
            if self.tokens[i] == "=":
                return True
            if self.tokens[i] != ",":
                return False
            i += 1
        return False

    def place(self) -> Loc | None:
        if not self.accept("@"):
            return None
        index = int(self.next())
        return self.locs.places[index] if self.locs is not None and index < len(self.locs.places) else None

    def type(self) -> Type:
        name, space = self.next(), Space.VALUE
        if self.peek() == "<":
            self.expect("<")
            space, name = Space(name), self.next()
            self.expect(">")
        shape = []
        if self.accept("["):
            while not self.accept("]"):
                shape.append(int(self.next()))
                self.accept(",")
        return Type(dtypes.parse(name), tuple(shape), space)

    def attrs(self) -> tuple[tuple[str, Any], ...]:
        # `{` also opens a block: an attribute list starts with `name =`.
        if self.peek() != "{" or self.tokens[self.at + 2] != "=" or self.tokens[self.at + 1].startswith("%"):
            return ()
        self.expect("{")
        found: dict[str, Any] = {}
        while not self.accept("}"):
            name = self.next()
            self.expect("=")
            found[name] = self.attr_value()
            self.accept(",")
        return sorted_attrs(found)

    def attr_value(self) -> Any:
        token = self.peek()
        if token == "(":
            self.next()
            values = []
            while not self.accept(")"):
                values.append(self.attr_value())
                self.accept(",")
            return tuple(values)
        if token.startswith('"'):
            return _unquoted(self.next())
        if token in ("true", "false", "none"):
            return {"true": True, "false": False, "none": None}[self.next()]
        if token[0].isdigit() or token[0] == "-" or token in ("inf", "nan"):
            text = self.next()
            return float(text) if any(c in text for c in ".einf") else int(text)
        ahead = self.tokens[self.at + 1]
        if ahead in ("<", "["):
            return self.type()
        return dtypes.parse(self.next())


def _number(text: str, dtype: DType) -> float | int | bool:
    if dtype.is_bool:
        return text == "true"
    if not dtype.is_float:
        return int(text)
    return float(np.float32(text)) if dtype.bits <= 32 else float(text)


def _unquoted(token: str) -> str:
    return _UNESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)), token[1:-1]) if token.startswith('"') else token
