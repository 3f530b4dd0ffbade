"""Bugs planted by rule at random places that tests execute: an estimate nobody has fitted the tests to.

A rule changes one place: a comparison its boundary, a sum its 1, a condition one of its parts or itself, a
statement its existence, emitted text its signedness. Folders are drawn first, then rules, then places, so that
rare rules in small folders come up as often as the common ones.
"""

from __future__ import annotations

import ast
import io
import json
import random
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("schedule", "codegen", "passes", "runtime", "interop", "metal_sim")
BOUNDARY = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}
PAIRS = "sext/zext slt/ult sle/ule sgt/ugt sge/uge sdiv/udiv srem/urem ashr/lshr smin/umin smax/umax sitofp/uitofp fptosi/fptoui olt/ole ogt/oge ult/ule ugt/uge slt/sle sgt/sge lt/le gt/ge min/max add/sub eq/ne and/or"
OTHER_WORDS: dict[str, list[str]] = {}
for _a, _b in (pair.split("/") for pair in PAIRS.split()):
    OTHER_WORDS.setdefault(_a, []).append(_b)
    OTHER_WORDS.setdefault(_b, []).append(_a)


@dataclass(frozen=True)
class Site:
    """A place in a file, and the text that stands there in a mutant."""

    file: str
    line: int
    start: int
    stop: int
    rule: str
    text: str

    def planted(self, source: str) -> str:
        """The source with the bug in it."""
        return source[: self.start] + self.text + source[self.stop :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.rule}"


class Sites:
    """All places of one file where a rule applies."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = source.splitlines()
        tree = ast.parse(source)
        for part in [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr)]:
            part.values = []  # positions inside of f-strings are not those of the file
        self.tree = tree

    def __iter__(self) -> Iterator[Site]:
        for node in ast.walk(self.tree):
            for rule, place, text in _changes(node):
                yield self._site(place, rule, text)
        yield from self._words()

    def _site(self, node: ast.AST, rule: str, text: str) -> Site:
        place = node
        start = self._offset(place.lineno, place.col_offset)  # type: ignore[attr-defined]
        stop = self._offset(place.end_lineno, place.end_col_offset)  # type: ignore[attr-defined]
        return Site(self.file, place.lineno, start, stop, rule, text)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _words(self) -> Iterator[Site]:
        """Instruction names in the texts that are emitted and the ops that are built."""
        doc = {n.value.lineno for n in ast.walk(self.tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type != tokenize.STRING or token.start[0] in doc:
                continue
            base = self.starts[token.start[0] - 1] + token.start[1]
            for found in re.finditer(r"[a-z]+", token.string):
                for other in OTHER_WORDS.get(found[0], ()):
                    line = token.start[0] + token.string[: found.start()].count("\n")
                    yield Site(self.file, line, base + found.start(), base + found.end(), f"word {found[0]} -> {other}", other)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """(rule, node to replace, text) of every rule that applies to a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in BOUNDARY:
            other = BOUNDARY[type(op)]
            yield "comparison", node, f"{_text(left)} {other} {_text(right)}"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            yield "one off", node, _text(left)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield "swapped difference", node, f"({_text(right)} - {_text(left)})"
        case ast.BoolOp(values=values, op=op):
            for i in range(len(values)):
                rest = [_text(v) for j, v in enumerate(values) if j != i]
                yield "part of a condition dropped", node, "(" + (" and " if isinstance(op, ast.And) else " or ").join(rest) + ")"
        case ast.If(test=test) | ast.While(test=test):
            yield "condition forced", test, "False"
            if isinstance(node, ast.If):
                yield "condition forced", test, "True"
        case ast.IfExp(body=body, orelse=orelse):
            yield "one side always", node, f"({_text(body)})"
            yield "one side always", node, f"({_text(orelse)})"
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "statement dropped", node, "pass"
        case ast.Call(func=ast.Name(id=name)) if name in OTHER_NAME:
            yield "other function", node.func, OTHER_NAME[name]
        case ast.Call(args=[ast.Constant(value="select") as word, condition, a, b]):
            yield "swapped operands", node, f"{_text(node.func)}({word.value!r}, {_text(condition)}, {_text(b)}, {_text(a)})"
        case ast.Call(args=[ast.Constant(value="sub" | "lt" | "le" | "gt" | "ge" | "shl" | "shr" as word), a, b]):
            yield "swapped operands", node, f"{_text(node.func)}({word!r}, {_text(b)}, {_text(a)})"
        case ast.Set(elts=elts) if len(elts) > 1:
            yield from (("element dropped", node, "{" + ", ".join(_text(e) for e in elts if e is not left_out) + "}") for left_out in elts)
        case ast.Compare(ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple(elts=elts) as right]) if len(elts) > 1:
            for left_out in elts:
                yield "element dropped", right, "(" + ", ".join(_text(e) for e in elts if e is not left_out) + ",)"
        case ast.Return(value=ast.Constant(value=bool() as value)):
            yield "other answer", node, f"return {not value}"
        case _:
            return


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.BoolOp | ast.IfExp | ast.Compare | ast.Lambda | ast.BinOp | ast.NamedExpr) else text


class LineMap:
    """Which tests execute which line, as `tools/line_tests.py` has written it."""

    def __init__(self, files: list[str]) -> None:
        self.seconds: dict[str, float] = {}
        self.tests: dict[tuple[str, int], list[str]] = {}
        for file in files:
            found = json.loads(Path(file).read_text())
            self.seconds |= found["tests"]
            names = list(found["tests"])
            for name, lines in found["lines"].items():
                for line, numbers in lines.items():
                    self.tests.setdefault((name, int(line)), []).extend(names[n] for n in numbers)

    def choice(self, site: Site, seconds: float, most: int, draw: random.Random) -> list[str]:
        """Tests that execute the line, of as many functions as possible, that end in so many seconds together."""
        of_function: dict[str, list[str]] = {}
        for test in self.tests[site.file, site.line]:
            of_function.setdefault(test.split("[")[0], []).append(test)
        rounds = [draw.sample(tests, len(tests)) for tests in of_function.values()]
        draw.shuffle(rounds)
        chosen, spent = [], 0.0
        for depth in range(max(map(len, rounds))):
            for tests in rounds:
                if depth < len(tests) and len(chosen) < most and spent + self.seconds[tests[depth]] <= seconds:
                    chosen.append(tests[depth])
                    spent += self.seconds[tests[depth]]
        return chosen or [min(self.tests[site.file, site.line], key=self.seconds.__getitem__)]

    def files(self, site: Site, most: int) -> list[str]:
        """The files of tests that execute the line most often, with the backend that they did it on."""
        found = Counter((test.split("::")[0], "sim" if "[sim" in test or "-sim" in test else "cpu") for test in self.tests[site.file, site.line])
        return [f"{file} --backend {backend}" for (file, backend), _ in found.most_common(most)]


def random_sites(root: Path, lines: LineMap, count: int, seed: int, wanted: str = "") -> list[Site]:
    """So many places on lines that tests execute, each folder and rule with an equal chance."""
    draw = random.Random(seed)
    table: dict[str, dict[str, list[Site]]] = {}
    for folder in FOLDERS:
        for path in sorted((root / "eas" / folder).rglob("*.py")):
            name = str(path.relative_to(root))
            if wanted in name:
                for site in Sites(name, path.read_text()):
                    if (site.file, site.line) in lines.tests:
                        table.setdefault(folder, {}).setdefault(site.rule.split()[0], []).append(site)
    chosen: list[Site] = []
    while len(chosen) < count and any(table.values()):
        rules = table[draw.choice([folder for folder in table if table[folder]])]
        rule = draw.choice(sorted(rules))
        site = rules[rule].pop(draw.randrange(len(rules[rule])))
        if not rules[rule]:
            del rules[rule]
        if all((site.file, site.line) != (other.file, other.line) for other in chosen):
            chosen.append(site)
    return chosen
