"""Pointers and references whose declaration names no address space."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from eas.metal_sim.outline import Function, Outline
from eas.metal_sim.tokens import Token, closing_angle, split_at_commas

SPACES = frozenset(["device", "constant", "thread", "threadgroup", "threadgroup_imageblock", "ray_data", "object_data"])
_QUALIFIERS = SPACES | frozenset(["const", "volatile", "coherent", "restrict", "__restrict", "static", "constexpr", "inline", "unsigned", "signed"])
_SCALARS = "bool|char|uchar|short|ushort|int|uint|long|ulong|half|float|bfloat|void|size_t|ptrdiff_t|u?int(?:8|16|32|64)_t|unsigned|signed"
_BUILTIN = re.compile(rf"(?:{_SCALARS}|(?:packed_)?(?:bool|u?char|u?short|u?int|u?long|half|float|bfloat)[234])$")
_CASTS = frozenset(("reinterpret_cast", "static_cast", "const_cast"))


def unqualified(tokens: Sequence[Token], outline: Outline) -> Iterator[tuple[Token, str]]:
    """The declarators * and & that stand after a type without an address space."""
    for function in outline.functions:
        yield from _parameters(tokens, function, outline)
        yield from _inside(tokens, function)


def _parameters(tokens: Sequence[Token], function: Function, outline: Outline) -> Iterator[tuple[Token, str]]:
    opening, end = function.parameters
    for part in split_at_commas(tokens[opening + 1 : end]):
        words = [t.text for t in part]
        if SPACES & set(words) or "(" in words[: words.index("[") if "[" in words else len(words)]:
            continue
        plain = _without_angles(part)
        mark = next((t for t in plain if t.text in ("*", "&")), None)
        if mark is None or "&&" in words:
            continue
        base = [t.text for t in plain[: plain.index(mark)] if t.kind == "word" and t.text not in _QUALIFIERS]
        if not base and not {"unsigned", "signed"} & set(words):
            continue
        known = not base or _BUILTIN.match(base[-1]) or base[-1] in outline.type_names
        if known and not function.template_names & set(words):
            yield mark, _message(mark)


def _inside(tokens: Sequence[Token], function: Function) -> Iterator[tuple[Token, str]]:
    first, last = function.body
    for i in range(first + 1, last):
        token = tokens[i]
        if token.text not in ("*", "&") or tokens[i - 1].kind != "word":
            continue
        at = i - 1
        spaces = False
        while tokens[at].text in _QUALIFIERS and not _BUILTIN.match(tokens[at].text):
            spaces |= tokens[at].text in SPACES
            at -= 1
        if not _BUILTIN.match(tokens[at].text) or tokens[at - 1].text in (".", "->", "::"):
            continue
        at -= 1
        while tokens[at].text in _QUALIFIERS or _BUILTIN.match(tokens[at].text):
            spaces |= tokens[at].text in SPACES
            at -= 1
        starts = tokens[at].text in ("(", ";", "{", "}") or (tokens[at].text == "<" and tokens[at - 1].text in _CASTS)
        if not spaces and starts:
            yield token, _message(token)


def _without_angles(part: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    at = 0
    while at < len(part):
        if part[at].text == "<" and at and part[at - 1].kind == "word":
            at = closing_angle(part, at)
        else:
            kept.append(part[at])
        at += 1
    return kept


def _message(mark: Token) -> str:
    kind = "pointer" if mark.text == "*" else "reference"
    return f"a {kind} type must name its address space"
