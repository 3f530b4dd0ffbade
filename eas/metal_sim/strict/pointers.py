"""Pointers and references whose declaration names no address space, anywhere in a text."""

from __future__ import annotations

from collections.abc import Sequence

from eas.metal_sim.outline import Outline
from eas.metal_sim.strict.text import SPACES, TEMPLATE_TYPES, Found, is_builtin_type
from eas.metal_sim.tokens import Token

_STORAGE = frozenset(["const", "volatile", "restrict", "__restrict", "static", "constexpr", "inline", "extern", "friend", "typename", "struct", "class", "enum", "union"])
_STARTS = frozenset([";", "{", "}", "(", ",", "<", ":", "]", "typedef", "=", ">", ")", "explicit", "METAL_FUNC"])
_ENDS = frozenset([")", ",", ">", "*", "&", ";", "const", "__restrict", "restrict", "volatile", "[", "(", "{", "="])


def unqualified(tokens: Sequence[Token], outline: Outline) -> Found:
    """The declarators * and & that stand after a type without an address space."""
    names = _type_names(tokens, outline)
    for i in range(1, len(tokens) - 1):
        if tokens[i].text not in ("*", "&"):
            continue
        in_brackets = tokens[i - 1].text == "(" and i + 3 < len(tokens) and tokens[i + 1].kind == "word" and [t.text for t in tokens[i + 2 : i + 4]] == [")", "["]
        if _lacks_space(tokens, i - 1 if in_brackets else i, names):
            yield tokens[i], f"a {'pointer' if tokens[i].text == '*' else 'reference'} type must name its address space"


def _type_names(tokens: Sequence[Token], outline: Outline) -> frozenset[str]:
    """Types of the text that no template parameter and no variable shares its name with."""
    names = outline.type_names - outline.template_names
    return frozenset(names - {tokens[i].text for i in range(1, len(tokens) - 1) if tokens[i].text in names and _declares_variable(tokens, i)})


def _declares_variable(tokens: Sequence[Token], at: int) -> bool:
    """`float name =`, but not `typedef float name;`."""
    before = tokens[at - 1]
    if tokens[at + 1].text not in ("=", ";", ",", ")", "[") or before.text in _STORAGE or before.text in SPACES or before.text == "using":
        return False
    if before.kind != "word" and before.text not in ("*", "&", ">", "}"):
        return False
    first = at - 1
    while first > 0 and tokens[first].text not in (";", "{", "}"):
        first -= 1
    return tokens[first + 1].text != "typedef" and before.text not in ("return", "typedef") and before.text != "}"


def _lacks_space(tokens: Sequence[Token], mark: int, names: frozenset[str]) -> bool:
    """Whether a type without an address space stands before the mark, where only a declaration can have it."""
    at, builtin, found = mark - 1, False, False
    while at >= 0:
        token = tokens[at]
        if token.text in SPACES:
            return False
        if token.text in _STORAGE:
            at -= 1
        elif token.text == ">" and not found:
            opening = _opening_angle(tokens, at)
            if opening <= 0 or not (tokens[opening - 1].text in TEMPLATE_TYPES or tokens[opening - 1].text in names):
                return False
            found, at = True, opening - 2
        elif token.kind == "word" and (is_builtin_type(token.text) or token.text == "auto") and (builtin or not found):
            builtin = found = True
            at -= 1
        elif token.text in names and not found:
            found = True
            at -= 1
        elif token.text == "::" and found:
            at -= 2
        else:
            break
    if not found:
        return False
    return (builtin and tokens[at].text not in (".", "->")) or (tokens[at].text in _STARTS and _ends(tokens, mark))


def _ends(tokens: Sequence[Token], mark: int) -> bool:
    return tokens[mark + 1].kind == "word" or tokens[mark + 1].text in _ENDS


def _opening_angle(tokens: Sequence[Token], at: int) -> int:
    """The index of the `<` that the `>` at `at` closes, or -1 if none does in this statement."""
    depth = 0
    while at >= 0 and tokens[at].text not in (";", "{", "}"):
        depth += {">": 1, "<": -1}.get(tokens[at].text, 0)
        if depth == 0:
            return at
        at -= 1
    return -1
