"""Finds the syntax tree of a live function in its source, and shows places in that source."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from eas.base.errors import source_line, source_lines
from eas.frontend.syntax.nodes import copied


@dataclass(frozen=True)
class SourceSpot:
    """A stretch of one source line; columns are UTF-8 byte offsets, as in `ast` and `co_positions`."""

    filename: str
    line: int
    col: int
    end_col: int

    def describe(self) -> Sequence[str]:
        """`at file:line`, the source line, the caret line."""
        shown = [f"at {os.path.basename(self.filename)}:{self.line}"]
        raw = source_line(self.filename, self.line).rstrip().encode()
        if not raw:
            return shown
        text = raw.decode()
        margin = len(text) - len(text.lstrip())
        start = max(len(raw[: self.col].decode(errors="replace")), margin)
        end = max(len(raw[: self.end_col].decode(errors="replace")), start + 1)
        return [*shown, f"  {text[margin:]}", "  " + " " * (start - margin) + "^" * (end - start)]


def spot_of(node: ast.stmt | ast.expr, filename: str) -> SourceSpot:
    """The first line of a node; a node of several lines is marked to the end of that line."""
    end = node.end_col_offset
    if end is None or node.end_lineno != node.lineno:
        end = len(source_line(filename, node.lineno).rstrip().encode())
    return SourceSpot(filename, node.lineno, node.col_offset, end)


def head_of(fn: Any) -> SourceSpot:
    """The line of a function's `def`."""
    filename, line = fn.__code__.co_filename, fn.__code__.co_firstlineno
    while source_line(filename, line).lstrip().startswith("@"):
        line += 1
    text = source_line(filename, line).rstrip()
    return SourceSpot(filename, line, len(text) - len(text.lstrip()), len(text.encode()))


@dataclass(frozen=True)
class Definition:
    """A `def` in a file and the name of the class around it, which mangles private names."""

    node: ast.FunctionDef
    owner: str | None


def find_definition(fn: FunctionType) -> Definition | None:
    """The `def` that made this function, by its first line and name, or None; a copy to edit."""
    code = fn.__code__
    lines = source_lines(code.co_filename, fn.__globals__)
    found = _definitions(tuple(lines)).get((code.co_firstlineno, code.co_name))
    return None if found is None else replace(found, node=copied(found.node))


def forget_if_edited(filename: str) -> None:
    """Let the next search read the file again if it changed on disk."""
    linecache.checkcache(filename)


def is_compiled_from_source(fn: FunctionType) -> bool:
    """Whether the function's source compiles to what it is, in the context of its whole file or of its statement."""
    # CPython calls methods of modules that are imported in the same text differently. IPython compiles each statement of a cell alone.
    code = fn.__code__
    lines, key = tuple(source_lines(code.co_filename, fn.__globals__)), (code.co_firstlineno, code.co_name)
    candidates = (find(lines).get(key) for find in (_codes, _codes_by_statement))
    return any(fresh is not None and same_code(code, fresh) for fresh in candidates)


@lru_cache(maxsize=8)
def _codes(lines: tuple[str, ...]) -> dict[tuple[int, str], CodeType]:
    try:
        module = compile("".join(lines), "<source>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}
    return {(code.co_firstlineno, code.co_name): code for code in _nested_codes(module)}


@lru_cache(maxsize=8)
def _codes_by_statement(lines: tuple[str, ...]) -> dict[tuple[int, str], CodeType]:
    try:
        statements = ast.parse("".join(lines)).body
        modules = [compile(ast.Module([stmt], []), "<source>", "exec", dont_inherit=True) for stmt in statements]
    except (SyntaxError, ValueError):
        return {}
    return {(code.co_firstlineno, code.co_name): code for module in modules for code in _nested_codes(module)}


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _nested_codes(const)


@lru_cache(maxsize=8)
def _definitions(lines: tuple[str, ...]) -> dict[tuple[int, str], Definition]:
    # The whole file is parsed, not the block: positions, columns and classes come out right for free.
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return {}
    return {_key(found.node): found for found in _defs(tree)}


def _defs(tree: ast.AST) -> Iterator[Definition]:
    left: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while left:
        node, owner = left.pop()
        if isinstance(node, ast.FunctionDef):
            yield Definition(node, owner)
        inside = node.name if isinstance(node, ast.ClassDef) else owner
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        left += [(child, inside) for child in reversed(children)]


def _key(node: ast.FunctionDef) -> tuple[int, str]:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.name


def same_code(live: CodeType, fresh: CodeType) -> bool:
    """Whether freshly compiled source is what the live code was compiled from."""
    if live.co_varnames[: _arg_count(live)] != fresh.co_varnames[: _arg_count(fresh)]:
        return False
    if "@pytest_ar" in live.co_names:  # pytest rewrote the asserts: only the names can be compared
        return set(fresh.co_names) - {"AssertionError"} <= set(live.co_names)
    return (
        live.co_code == fresh.co_code
        and live.co_names == fresh.co_names
        and live.co_varnames == fresh.co_varnames
        and len(live.co_consts) == len(fresh.co_consts)
        and all(map(_same_constant, live.co_consts, fresh.co_consts))
    )


def _same_constant(live: object, fresh: object) -> bool:
    if isinstance(live, CodeType) and isinstance(fresh, CodeType):
        return same_code(live, fresh)
    return type(live) is type(fresh) and (live == fresh or repr(live) == repr(fresh))


def _arg_count(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount
