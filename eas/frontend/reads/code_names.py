"""What names a code object uses: globals, attributes, modules that it imports."""

from __future__ import annotations

import opcode
import re
from collections.abc import Iterator
from types import CodeType

_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_BY_NAME = tuple(opcode.opmap[name] for name in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS") if name in opcode.opmap)
_IMPORT = opcode.opmap["IMPORT_NAME"]
_MATCH_CLASS = opcode.opmap["MATCH_CLASS"]
# They take names as strings.
_DYNAMIC = frozenset({"getattr", "hasattr", "globals", "vars", "eval", "attrgetter", "methodcaller", "import_module", "format", "format_map", "__dict__", "__globals__", "__builtins__", "__getattribute__"})
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes_in(const)


def names_of(code: CodeType) -> Iterator[str]:
    """Global and attribute names, also those that are given as strings where strings may be names."""
    for each in codes_in(code):
        yield from each.co_names
        if matches_classes(each) or not _DYNAMIC.isdisjoint(code.co_names):
            yield from _strings(each.co_consts)


def global_names(code: CodeType) -> Iterator[str]:
    """The names that are looked up in the globals and builtins."""
    is_dynamic = not _DYNAMIC.isdisjoint(code.co_names)
    for each in codes_in(code):
        yield from (each.co_names[arg >> 1] for arg in _arguments(each, _LOAD_GLOBAL))
        yield from (each.co_names[arg] for op in _BY_NAME for arg in _arguments(each, op))
        if is_dynamic:
            yield from _strings(each.co_consts)


def imported_names(code: CodeType) -> Iterator[str]:
    """The modules that import statements name; a relative one less its dots."""
    for each in codes_in(code):
        yield from (each.co_names[arg] for arg in _arguments(each, _IMPORT))


def imports(code: CodeType) -> bool:
    """Whether this code, less the functions inside it, has an import statement."""
    return _IMPORT in code.co_code[::2]


def matches_classes(code: CodeType) -> bool:
    """Whether this code has a pattern such as `case Point(x=1)`, which reads attributes by constants."""
    return _MATCH_CLASS in code.co_code[::2]


def _arguments(code: CodeType, op: int) -> Iterator[int]:
    """The arguments of all instructions of one kind."""
    ops, args = code.co_code[::2], code.co_code[1::2]
    at = ops.find(op)
    while at >= 0:
        arg, shift, before = args[at], 8, at - 1
        while before >= 0 and ops[before] == _EXTENDED:
            arg |= args[before] << shift
            shift, before = shift + 8, before - 1
        yield arg
        at = ops.find(op, at + 1)


def _strings(consts: tuple[object, ...]) -> Iterator[str]:
    for const in consts:
        if isinstance(const, str):
            yield from _IDENTIFIER.findall(const)
        elif isinstance(const, tuple):
            yield from _strings(const)
