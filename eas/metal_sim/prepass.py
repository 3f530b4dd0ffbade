"""Reads what a Metal text declares and rewrites it into C++: kernels, constants, threadgroup memory."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eas.base.errors import ArgumentError
from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.signatures import (
    ADDRESS_SPACES,
    ERASED,
    function_name,
    outside_templates,
    parameter_types,
    signature,
)
from eas.metal_sim.strict.text import index_of, is_zeroed
from eas.metal_sim.tokens import (
    OPENING,
    Edits,
    Token,
    closing,
    closing_angle,
    join,
    line_of,
    split_at_commas,
    tokenize,
    unmatched,
)

# attribute -> member of eas_sim::Thread
POSITIONS = {
    "thread_position_in_grid": "position_in_grid",
    "thread_position_in_threadgroup": "position_in_threadgroup",
    "threadgroup_position_in_grid": "threadgroup_position",
    "threads_per_threadgroup": "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup": "dispatch_threads_per_threadgroup",
    "threads_per_grid": "threads_per_grid",
    "grid_size": "threads_per_grid",
    "grid_origin": "grid_origin",
    "threadgroups_per_grid": "threadgroups_per_grid",
    "thread_index_in_threadgroup": "index_in_threadgroup",
    "thread_index_in_simdgroup": "lane",
    "simdgroup_index_in_threadgroup": "simdgroup",
    "simdgroups_per_threadgroup": "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup": "dispatch_simdgroups_per_threadgroup",
    "threads_per_simdgroup": "simd_width",
    "thread_execution_width": "simd_width",
    "thread_index_in_quadgroup": "quad_lane",
    "quadgroup_index_in_threadgroup": "quadgroup",
    "quadgroups_per_threadgroup": "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup": "dispatch_quadgroups_per_threadgroup",
}
MAX_BUFFERS = 31
_TOO_LARGE = '"a threadgroup has 32768 bytes of memory, and the variables of this function have more"'
_PLAIN = re.compile(r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[xX][\da-fA-F.]+[pP][+-]?\d+")
_HALF = re.compile(r"((?!0[xX])[\d.]+(?:[eE][+-]?\d+)?)([hH]|bf|BF)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel: where it is bound, or which thread number it is."""

    name: str
    type: str
    kind: str  # "buffer", "threadgroup" or "position"
    index: int = 0
    attribute: str = ""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel as its text declares it; `call` names it in C++, with template arguments."""

    name: str
    call: str
    parameters: tuple[Parameter, ...]
    line: int
    max_threads: int | None = None
    words: frozenset[str] = frozenset()
    """The words of its body, to know which function constants it needs."""
    types: str = ""
    """The types of its parameters in C++, where they alone tell which instance of a template it is."""


@dataclass(frozen=True, slots=True)
class FunctionConstant:
    """`constant T name [[function_constant(index)]];`"""

    name: str
    type: str
    index: int


@dataclass
class Source:
    """A Metal text, read: what it declares, and the C++ that it becomes."""

    text: str
    kernels: list[KernelSource] = field(default_factory=list)
    constants: list[FunctionConstant] = field(default_factory=list)
    undefined: set[str] = field(default_factory=set)
    """Function constants without a value that no `is_function_constant_defined` asks about."""
    variables: list[tuple[str, str]] = field(default_factory=list)
    """Threadgroup variables, (name, type), in the order of their ids."""


def read_source(text: str, constants: Mapping[str | int, object], name: str = "") -> Source:
    """Read Metal text that needs no preprocessor any more; errors call it by its name."""
    return _Reader(text, constants, name).read()


class _Reader:
    """One walk over the declarations of a text, collecting facts and edits."""

    def __init__(self, text: str, constants: Mapping[str | int, object], name: str) -> None:
        self.name = name
        self.edits = Edits(text)
        self.tokens = tokenize(text)
        self.given = dict(constants)
        self.source = Source(text)
        self.templates: dict[str, KernelSource] = {}
        self.seen: set[tuple[str, ...]] = set()
        self.instantiations: list[tuple[str, str, str, Token]] = []
        self.values: dict[str, bool] = {}  # function constant -> is it defined
        self.promised: dict[str, Token] = {}  # functions without a body, at program scope
        self.defined: set[str] = set()

    def read(self) -> Source:
        bracket = unmatched(self.tokens)
        if bracket is not None:
            raise self._error(bracket, f"Metal: the bracket {bracket.text} has no partner")
        try:
            return self._read()
        except IndexError:  # a name, a bracket or a value that a declaration must have is not there
            raise MetalSourceError("Metal: the text has a declaration that is not complete") from None

    def _read(self) -> Source:
        self._declarations(0, len(self.tokens), ())
        self._refuse_unfulfilled()
        for name, call, types, token in self.instantiations:
            made = self.templates.get(call.split("<")[0].removeprefix("::"))
            if made is None:
                raise self._error(token, f"there is no kernel template {call.split('<')[0]} to instantiate")
            if any(k.name == name and k.call != call for k in self.source.kernels):
                raise self._error(token, f"Metal: two kernels have the name {name}")
            self.source.kernels.append(replace(made, name=name, call=call, types=types))
        self._erase_qualifiers()
        unknown = set(self.given) - {k for c in self.source.constants for k in (c.name, c.index)}
        if unknown:
            names = ", ".join(c.name for c in self.source.constants) or "none"
            raise MetalSourceError(
                f"there is no function constant {sorted(map(str, unknown))[0]}; this text has {names}"
            )
        self.source.text = self.edits.apply()
        return self.source

    def _refuse_unfulfilled(self) -> None:
        """Functions that are declared and called, and have no body."""
        for name, token in self.promised.items():
            uses = sum(a.text == name and b.text == "(" for a, b in itertools.pairwise(self.tokens))
            if name not in self.defined and uses > 1:
                raise self._error(token, f"Metal: function {name} is called, and never defined")

    # --- declarations -----------------------------------------------------------------------------

    def _declarations(self, at: int, end: int, scope: tuple[str, ...]) -> None:
        tokens = self.tokens
        while at < end:
            token = tokens[at]
            if token.kind == "directive" or token.text in (";", "}"):
                at += 1
            elif token.text in ("public", "private", "protected") and tokens[at + 1].text == ":":
                at += 2
            else:
                at = self._declaration(at, end, scope)

    def _declaration(self, start: int, end: int, scope: tuple[str, ...]) -> int:
        """Read one declaration; the index after it."""
        at = start
        has_value = False
        while at < end:
            text = self.tokens[at].text
            if text == ";":
                self._statement(start, at, scope)
                return at + 1
            if text == "{" and not has_value:
                return self._braced(start, at, scope)
            if text == "template" and at + 1 < end and self.tokens[at + 1].text == "<":
                at = closing_angle(self.tokens, at + 1)
            elif text in OPENING:
                at = closing(self.tokens, at)
            elif text == "=" and self.tokens[at - 1].text != "operator":
                has_value = True
            elif text == "operator":  # operator(), operator[], operator>=
                at += 2 if self.tokens[at + 1].text in OPENING else 0
                while at + 1 < end and self.tokens[at + 1].text != "(":
                    at += 1
            at += 1
        return end

    def _braced(self, start: int, brace: int, scope: tuple[str, ...]) -> int:
        """A declaration with a body: namespace, class, enum or function."""
        close = closing(self.tokens, brace)
        words = [t.text for t in self._head(start, brace)]
        if "namespace" in words or words[:1] == ["extern"]:
            inner = (words[-1],) if words[-1] != "namespace" and "extern" not in words else ()
            self._declarations(brace + 1, close, scope + inner)
        elif "enum" in words or ("(" not in words and {"struct", "class", "union"} & set(words)):
            if "<" in words and self._drop_if_repeated(start, brace, close, scope):  # S<device T*>, S<thread T*>
                return close + 1
            if "enum" not in words:
                self._declarations(brace + 1, close, (*scope, f"struct {' '.join(words)}"))
        else:
            self._function(start, brace, close, scope)
            return close + 1
        if "namespace" in words or words[:1] == ["extern"]:
            return close + 1
        at = close + 1  # `struct S {...} name;`
        while at < len(self.tokens) and self.tokens[at].text != ";":
            at += 1
        return at + 1

    def _head(self, start: int, end: int) -> list[Token]:
        """The tokens of a declaration without template lists and attributes."""
        kept: list[Token] = []
        at = start
        while at < end:
            text = self.tokens[at].text
            if text == "template" and self.tokens[at + 1].text == "<":
                at = closing_angle(self.tokens, at + 1)
            elif text == "[" and self.tokens[at + 1].text == "[":
                at = closing(self.tokens, at)
            else:
                kept.append(self.tokens[at])
            at += 1
        return kept

    def _attributes(self, start: int, end: int) -> dict[str, str]:
        """[[name(argument), ...]] of a range, and its argument text."""
        found: dict[str, str] = {}
        at = start
        while at < end:
            text = self.tokens[at].text
            if text == "[" and at + 1 < end and self.tokens[at + 1].text == "[":
                close = closing(self.tokens, at)
                for part in split_at_commas(self.tokens[at + 2 : close - 1]):
                    name = part[2].text if len(part) > 2 and part[1].text == "::" else part[0].text
                    argument = join(part[part.index(p) + 1 : -1]) if (p := _first(part, "(")) else ""
                    found[name] = argument
                at = close
            at += 1
        return found

    # --- statements: instantiations and constants -------------------------------------------------

    def _statement(self, start: int, end: int, scope: tuple[str, ...]) -> None:
        attributes = self._attributes(start, end)
        first = self.tokens[start]
        if first.text == "template" and self.tokens[start + 1].text != "<":
            if "host_name" in attributes:
                self._instantiation(start, end, self._host_name(attributes["host_name"], first), scope)
            return
        if "function_constant" in attributes:
            self._function_constant(start, end, attributes["function_constant"])
            return
        head = self._head(start, end)
        if head[-1:] and head[-1].text in ("default", "delete"):
            head = head[:-2]
        if any(t.text == "(" for t in head) and not any(t.text == "=" for t in head):
            if not scope and first.text not in ("template", "friend", "using", "typedef", "static_assert"):
                self.promised.setdefault(function_name(head), first)
            self._drop_if_repeated(start, end, end, scope)

    def _instantiation(self, start: int, end: int, name: str, scope: tuple[str, ...]) -> None:
        """`template [[host_name("n")]] [[kernel]] void f<T>(...);` or `... decltype(f<T>) f<T>;`"""
        head = self._head(start, end)
        stop = next((i for i, t in enumerate(head) if t.text == "(" and head[i - 1].text in (">", *self.templates)), len(head))
        stop = stop if stop < len(head) and not any(t.text == "decltype" for t in head) else len(head)
        first = stop - 1
        if head[first].text == ">":
            depth = 0
            while first > 0:
                depth += {">": 1, "<": -1}.get(head[first].text, 0)
                if depth == 0:
                    break
                first -= 1
            first -= 1
        while first >= 2 and head[first - 1].text == "::":
            first -= 2
        call = join(head[first:stop])
        path = "".join(f"{s}::" for s in scope)
        types = "" if ">" in call or stop == len(head) else parameter_types(head[stop + 1 : closing(head, stop)])
        self.instantiations.append((name, path + call, types, self.tokens[start]))
        self.edits.replace(self.tokens[start].start, self.tokens[end].end)

    def _function_constant(self, start: int, end: int, index: str) -> None:
        head = [t for t in self._head(start, end) if t.text not in ("constant", "const", "constexpr", "static")]
        name, type_ = head[-1].text, join(head[:-1])
        number = index_of(index)
        if number is None:
            raise self._error(self.tokens[start], f"function_constant({index}) of {name} is no number")
        self.source.constants.append(FunctionConstant(name, type_, number))
        value = self.given.get(name, self.given.get(number))
        self.values[name] = value is not None
        if value is None:
            self.source.undefined.add(name)
        # No constant of the language: it is no array's length and no template's argument.
        text = f"static const {type_} {name} = eas_sim::given<{type_}>({_literal(type_, value)});"
        self.edits.replace(self.tokens[start].start, self.tokens[end].end, text)

    # --- functions --------------------------------------------------------------------------------

    def _function(self, start: int, brace: int, close: int, scope: tuple[str, ...]) -> None:
        attributes = self._attributes(start, brace)
        self.defined.add(function_name(self._head(start, brace)))
        words = {t.text for t in self._head(start, brace)}
        if "kernel" in words or "kernel" in attributes:
            self._kernel(start, brace, close, attributes, scope)
        elif self._drop_if_repeated(start, brace, close, scope):
            return
        # What a template asks for is known when a pipeline is made of it, and is then refused: others of its kernels may fit.
        self._threadgroup_variables(brace, close, is_sized=self.tokens[start].text != "template")

    def _kernel(self, start: int, brace: int, close: int, attributes: dict[str, str], scope: tuple[str, ...]) -> None:
        opening = self._parameter_list(start, brace)
        name = self.tokens[opening - 1].text
        parts = split_at_commas(self.tokens[opening + 1 : closing(self.tokens, opening)])
        parameters = self._parameters(name, parts)
        path = "".join(f"{s}::" for s in scope)
        limit = attributes.get("max_total_threads_per_threadgroup", "")
        made = KernelSource(
            name, path + name, parameters, self._line(self.tokens[opening - 1]), index_of(limit),
            frozenset(t.text for t in self.tokens[brace:close] if t.kind == "word"),
        )
        if self.tokens[start].text == "template":
            self.templates[path + name] = made
        else:
            host_name = attributes.get("host_name")
            self.source.kernels.append(made if host_name is None else replace(made, name=self._host_name(host_name, self.tokens[start])))

    def _host_name(self, argument: str, token: Token) -> str:
        if not _string(argument):
            raise self._error(token, f"Metal: host_name({argument}) is no string")
        return _string(argument)

    def _parameter_list(self, start: int, brace: int) -> int:
        """The index of the `(` of the parameter list."""
        at = start
        while at < brace:
            text = self.tokens[at].text
            if text == "template" and self.tokens[at + 1].text == "<":
                at = closing_angle(self.tokens, at + 1)
            elif text == "(" and self.tokens[at - 1].kind == "word" and self.tokens[at - 1].text not in ("__attribute__", "decltype", "alignas"):
                return at
            elif text in OPENING:
                at = closing(self.tokens, at)
            at += 1
        raise self._error(self.tokens[start], "this kernel has no parameter list")

    def _parameters(self, kernel: str, parts: Sequence[list[Token]]) -> tuple[Parameter, ...]:
        found = [self._parameter(kernel, p) for p in parts if join(p) != "void"]
        for kind in ("buffer", "threadgroup"):
            taken = {p.index for p in found if p.kind == kind and p.index >= 0}
            free = iter(i for i in range(4096) if i not in taken)
            found = [replace(p, index=next(free)) if p.kind == kind and p.index < 0 else p for p in found]
            worst = max((p.index for p in found if p.kind == kind), default=0)
            if worst >= MAX_BUFFERS:
                raise MetalSourceError(
                    f"kernel {kernel} binds {kind} {worst}; Metal has {MAX_BUFFERS}, 0 to {MAX_BUFFERS - 1}"
                )
        return tuple(found)

    def _parameter(self, kernel: str, part: list[Token]) -> Parameter:
        first = next((i for i in range(len(part) - 1) if part[i].text == "[" and part[i + 1].text == "["), len(part))
        plain, marks = part[:first], part[first:]
        if any(t.text == "=" for t in plain):
            plain = plain[: next(i for i, t in enumerate(plain) if t.text == "=")]
        name, type_ = plain[-1].text, join(plain[:-1])
        if (extent := _first(plain, "[")) is not None:  # `constant int shape[2]` is a pointer
            at = plain.index(extent)
            name, type_ = plain[at - 1].text, f"{join(plain[: at - 1])}*"
        attributes = _attribute_words(marks)
        for attribute, argument in attributes.items():
            if attribute in POSITIONS:
                return Parameter(name, type_, "position", attribute=attribute)
            if attribute in ("buffer", "threadgroup"):
                number = index_of(argument)
                if number is None:
                    raise self._error(part[0], f"[[{attribute}({argument})]] of {name} is no number")
                return Parameter(name, type_, attribute, number)
        words = {t.text for t in plain}
        if words & {"device", "constant"} and words & {"*", "&", "["}:
            return Parameter(name, type_, "buffer", -1)
        if "threadgroup" in words and words & {"*", "&"}:
            return Parameter(name, type_, "threadgroup", -1)
        shown = f"[[{next(iter(attributes))}]]" if attributes else "no attribute"
        raise self._error(part[0], f"parameter {name} of kernel {kernel} has {shown}, which the software Metal does not know")

    def _threadgroup_variables(self, brace: int, close: int, is_sized: bool) -> None:
        """`threadgroup T x[N];` becomes a reference to memory of the threadgroup."""
        tokens = self.tokens
        at, depth, sizes = brace + 1, 0, list[str]()
        while at < close:
            depth += (tokens[at].text == "{") - (tokens[at].text == "}")
            if tokens[at].text == "threadgroup" and self._starts_statement(self._before_alignas(at)):
                end = at
                while tokens[end].text != ";" and end < close:
                    end = closing(tokens, end) + 1 if tokens[end].text in OPENING else end + 1
                made = self._variable(at, end)
                if is_sized and made:
                    inner = [*sizes, *(f"sizeof({name})" for name in made)]
                    sizes = inner if depth == 0 else sizes  # what a block declares is not known behind it
                    self.edits.replace(tokens[end].start, tokens[end].start, f"; static_assert({' + '.join(inner)} <= 32768, {_TOO_LARGE})")
                at = end
            at += 1

    def _before_alignas(self, at: int) -> int:
        """Where `alignas(n) threadgroup ...` begins if the word at `at` stands behind an alignas."""
        start = at - 4
        if at >= 4 and [t.text for t in self.tokens[start : start + 2]] == ["alignas", "("] and self.tokens[at - 1].text == ")":
            return start
        return at

    def _starts_statement(self, at: int) -> bool:
        at -= 1
        while self.tokens[at].text in ("const", "volatile", "static"):
            at -= 1
        return self.tokens[at].text in (";", "{", "}", ")", ":") or self.tokens[at].kind == "directive" or (
            self.tokens[at - 1].text == "[" or self.tokens[at].text == "]"
        )

    def _variable(self, at: int, end: int) -> list[str]:
        """Rewrites a declaration; the names of its types."""
        parts = split_at_commas(self.tokens[at + 1 : end])
        if not parts:
            return []
        head = parts[0][: next((i for i, t in enumerate(parts[0]) if t.text in ("[", "=")), len(parts[0]))]
        if any(t.text in ("*", "&", "&&") for t in outside_templates(head)):
            return []  # a pointer or reference into threadgroup memory: a variable of the thread
        if zeroed := is_zeroed(parts):
            parts[0] = parts[0][: next(i for i, t in enumerate(parts[0]) if t.text == "=")]
        align, start = "1", self._before_alignas(at)
        if start != at:
            align = self.tokens[start + 2].text
        if head[0].text == "alignas":
            close = closing(head, 1)
            align, head, parts[0] = join(head[2:close]), head[close + 1 :], parts[0][close + 1 :]
        type_ = join(head[:-1])
        made, types = list[str](), list[str]()
        for i, part in enumerate(parts):
            declarator = part[len(head) - 1 :] if i == 0 else part
            name, extents = declarator[0].text, join(declarator[1:])
            number = len(self.source.variables)
            self.source.variables.append((name, f"{type_}{extents}"))
            types.append(f"eas_tg_{number}")
            made.append(
                f"typedef {type_} eas_tg_{number}{extents}; eas_tg_{number}& {name} = "
                f"eas_sim::threadgroup_variable<eas_tg_{number}, {number}, {align}, {str(zeroed).lower()}>()"
            )
        self.edits.replace(self.tokens[start].start, self.tokens[end].start, "; ".join(made))
        return types

    def _drop_if_repeated(self, start: int, head_end: int, end: int, scope: tuple[str, ...]) -> bool:
        """Drop a function that differs from an earlier one in address spaces only, and refuse one that does not differ."""
        has_body = end != head_end
        head = self.tokens[start:head_end]
        key = (*scope, str(has_body), *signature(head))
        whole = (*key, "in", *(t.text for t in head if t.text in ADDRESS_SPACES))
        is_function = self.tokens[head_end].text == "{" and any(t.text == "(" for t in head) and not {"struct", "class"} & {t.text for t in head}
        if has_body and is_function and whole in self.seen:
            raise self._error(self.tokens[start], f"Metal: {function_name(head)} is defined twice")
        self.seen.add(whole)
        if key in self.seen:
            self.edits.replace(self.tokens[start].start, self.tokens[end].end)
            return True
        self.seen.add(key)
        return False

    # --- the whole text ---------------------------------------------------------------------------

    def _erase_qualifiers(self) -> None:
        tokens = self.tokens
        for i, token in enumerate(tokens):
            if token.kind == "directive":
                if re.match(r"\s*#\s*pragma\s+(unroll|nounroll|clang|METAL|mark)\b", token.text):
                    self.edits.replace(token.start, token.end)
            elif token.kind == "number":
                if suffix := _HALF.fullmatch(token.text):
                    kind = "h" if suffix[2] in "hH" else "bf"
                    self.edits.replace(token.start, token.end, f"{suffix[1]}_eas_{kind}")
                elif _PLAIN.fullmatch(token.text):  # a float; the compiler's option for that does not reach expressions that depend on templates
                    self.edits.replace(token.end, token.end, "f")
            elif token.kind != "word":
                continue
            elif token.text == "coherent":
                end = closing(tokens, i + 1) if tokens[i + 1].text == "(" else i
                self.edits.replace(token.start, tokens[end].end)
            elif token.text == "kernel":
                self.edits.replace(*self._whole_attribute(i), "static")
            elif token.text in ERASED:
                if tokens[i - 1].text == "[" and tokens[i + 1].text in ("]", "("):
                    continue  # an attribute, which clang ignores
                self.edits.replace(token.start, token.end)
            elif token.text == "constant":
                self.edits.replace(token.start, token.end, "const")
            elif token.text == "is_function_constant_defined" and tokens[i + 1].text == "(":
                name = tokens[i + 2].text
                self.source.undefined.discard(name)
                self.edits.replace(token.start, tokens[i + 3].end, "true" if self.values.get(name) else "false")

    def _whole_attribute(self, at: int) -> tuple[int, int]:
        """The range of the word at `at`, or of the [[...]] that it stands in."""
        first = at
        while first > 1 and self.tokens[first].text not in ("[", "]", ";", "}"):
            first -= 1
        if self.tokens[first].text == "[" and self.tokens[first - 1].text == "[":
            return self.tokens[first - 1].start, self.tokens[closing(self.tokens, first - 1)].end
        return self.tokens[at].start, self.tokens[at].end

    def _line(self, token: Token) -> int:
        return line_of(self.edits.text, token.start)[0]

    def _error(self, token: Token, message: str) -> MetalSourceError:
        line, file = line_of(self.edits.text, token.start)
        return MetalSourceError(message, line=line, file=file or self.name)


def _first(part: Sequence[Token], text: str) -> Token | None:
    return next((t for t in part if t.text == text), None)


def _attribute_words(marks: Sequence[Token]) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at + 1 < len(marks):
        if marks[at].text == "[" and marks[at + 1].text == "[":
            close = closing(marks, at)
            for part in split_at_commas(marks[at + 2 : close - 1]):
                opening = next((i for i, t in enumerate(part) if t.text == "("), len(part))
                found[part[opening - 1].text] = join(part[opening + 1 : -1])
            at = close
        at += 1
    return found


def _string(argument: str) -> str:
    """What string literals side by side say."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', argument))


def _literal(type_: str, value: object) -> str:
    """A function constant's value in C++; one that nobody defined is zero."""
    if value is None:
        return f"{type_}()"
    if isinstance(value, list | tuple | np.ndarray):
        return f"{type_}({', '.join(_literal('', v) for v in value)})"
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool):
        text = "true" if number else "false"
    elif isinstance(number, float):
        text = _float_literal(number)
    elif isinstance(number, int):
        text = str(int(number))
    else:  # a text would become a part of the program
        raise ArgumentError(f"a function constant is a number, a bool or a list of them, got {type(value).__name__}")
    return f"({type_})({text})" if type_ else text


def _float_literal(value: float) -> str:
    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    return f"{value.hex()}f"
