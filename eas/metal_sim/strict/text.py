"""What the checks on Metal text read: its tokens and outline, the types that it knows, the declarations inside of its functions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eas.metal_sim.outline import Function, Outline
from eas.metal_sim.tokens import OPENING, Token, closing, closing_angle, split_at_commas

Found = Iterator[tuple[Token, str]]
SPACES = frozenset(["device", "constant", "thread", "threadgroup", "threadgroup_imageblock", "ray_data", "object_data"])
_SCALARS = "bool|u?char|u?short|u?int|u?long|half|float|bfloat"
SCALAR_TYPE = re.compile(rf"(?:{_SCALARS}|void|size_t|ptrdiff_t|u?intptr_t|u?int(?:8|16|32|64)_t|unsigned|signed)$")
VECTOR_TYPE = re.compile(rf"(?:packed_)?(?:{_SCALARS})[234]$")
ATOMIC_TYPE = re.compile(r"atomic_(?:int|uint|bool|float|ulong)$")
MATRIX_TYPE = re.compile(r"(?:float|half)[234]x[234]$|simdgroup_(?:float|half|bfloat)8x8$")
TEMPLATE_TYPES = frozenset(["vec", "packed_vec", "array", "matrix", "simdgroup_matrix", "atomic", "_atomic"])
_DECLARES = SPACES | {"static"}
_BEFORE_SPACE = frozenset(["const", "volatile", "static", "constexpr", "coherent"])


@dataclass(frozen=True, slots=True)
class Text:
    """A preprocessed Metal text, with what the checks ask of it."""

    source: str
    tokens: list[Token]
    outline: Outline
    language: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Local:
    """A declaration inside of a function that says where its variables live."""

    function: Function
    words: frozenset[str]
    """The words before the name: spaces, qualifiers, type."""
    name: Token
    is_pointer: bool
    has_value: bool
    is_zeroed: bool = False
    """`x[n] = {0}`, which Metal's compiler takes for threadgroup memory, too."""


def is_builtin_type(word: str) -> bool:
    return bool(SCALAR_TYPE.match(word) or VECTOR_TYPE.match(word) or MATRIX_TYPE.match(word) or ATOMIC_TYPE.match(word))


def is_member(tokens: Sequence[Token], at: int) -> bool:
    """Whether the word at `at` is the name in `x.name` or `p->name`."""
    return at > 0 and tokens[at - 1].text in (".", "->")


def locals_of(text: Text) -> Iterator[Local]:
    """The declarations in functions that begin with an address space or `static`."""
    for function in text.outline.functions:
        first, last = function.body
        at = first + 1
        while at < last:
            if text.tokens[at].text in _DECLARES and _starts_statement(text.tokens, at):
                end = _statement_end(text.tokens, at, last)
                local = _local(function, text.tokens[at:end])
                if local is not None:
                    yield local
                at = end
            at += 1


def _starts_statement(tokens: Sequence[Token], at: int) -> bool:
    if at >= 4 and tokens[at - 1].text == ")" and tokens[at - 4].text == "alignas":
        at -= 4
    at -= 1
    while tokens[at].text in _BEFORE_SPACE:
        at -= 1
    return tokens[at].text in (";", "{", "}", ")", ":", "]") or tokens[at].kind == "directive"


def _statement_end(tokens: Sequence[Token], at: int, last: int) -> int:
    while at < last and tokens[at].text != ";":
        at = closing(tokens, at) + 1 if tokens[at].text in OPENING else at + 1
    return min(at, last)


def _local(function: Function, tokens: Sequence[Token]) -> Local | None:
    """The declaration that a statement's tokens are; None if they only look like one."""
    parts = split_at_commas(tokens)
    head = _without_attributes(parts[0]) if parts else []
    stop = next((i for i, t in enumerate(head) if t.text in ("=", "[", "{", "(")), len(head))
    if stop < 2 or head[stop - 1].kind != "word":
        pointer = stop < len(head) - 1 and head[stop].text == "(" and head[stop + 1].text in ("*", "&")
        return Local(function, frozenset(t.text for t in head[:stop]), head[stop - 1], True, False) if pointer and stop else None
    opens_pointer = stop < len(head) - 1 and head[stop].text == "(" and head[stop + 1].text in ("*", "&")
    is_pointer = opens_pointer or any(t.text in ("*", "&", "&&") for t in head[:stop])
    braced = stop < len(head) and head[stop].text in ("{", "(") and not opens_pointer
    has_value = braced or any(t.text == "=" for part in parts for t in part)
    return Local(function, frozenset(t.text for t in head[: stop - 1]), head[stop - 1], is_pointer, has_value, is_zeroed(parts))


def is_zeroed(parts: Sequence[Sequence[Token]]) -> bool:
    """Whether one declarator `x[n] = {}` or `x[n] = {0}` is all that a declaration has."""
    told = "".join(t.text for t in parts[0]) if len(parts) == 1 else ""
    return re.search(r"\]=\{0?\}$", told) is not None


def _without_attributes(tokens: Sequence[Token]) -> list[Token]:
    """Tokens without [[attributes]], __attribute__((...)), alignas(...) and template lists."""
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "[" and at + 1 < len(tokens) and tokens[at + 1].text == "[":
            at = closing(tokens, at)
        elif text in ("alignas", "__attribute__") and at + 1 < len(tokens) and tokens[at + 1].text == "(":
            at = closing(tokens, at + 1)
        elif text == "<" and at and tokens[at - 1].kind == "word":
            at = closing_angle(tokens, at)
        else:
            kept.append(tokens[at])
        at += 1
    return kept


def index_of(text: str) -> int | None:
    """The value of an index such as `1200+3`."""
    if not re.fullmatch(r"[0-9]{1,9}(?:[+*][0-9]{1,9})*", text := re.sub(r"\s|^\(|\)$", "", text)):
        return None
    return sum(math.prod(map(int, part.split("*"))) for part in text.split("+"))
