"""Words, literals and names that Metal does not have."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from eas.metal_sim.strict.text import Found, Text, is_builtin_type, is_member

_INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)(?P<suffix>\w*)")
_FLOAT = re.compile(r"(?:0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?P<suffix>\w*)")
_INTEGER_SUFFIXES = frozenset(["", "u", "l", "ul", "lu"])
_FLOAT_SUFFIXES = frozenset(["", "f", "h"])
_RESERVED = frozenset(
    ["kernel", "vertex", "fragment", "device", "constant", "thread", "threadgroup", "threadgroup_imageblock", "half", "ray_data", "object_data", "visible_function_table"]
)  # fmt: skip
_HEADERS = frozenset(p.name for p in (Path(__file__).parents[1] / "include").iterdir() if p.name.startswith("metal_"))
_INCLUDE = re.compile(r"\s*#\s*include\s*<(metal_\w+)>")
_ENDS_NAME = frozenset(["=", ";", ",", ")", "[", ":", "{"])


def words(message: str, *refused: str) -> Callable[[Text], Found]:
    """A check that refuses words; `{}` in the message is the word."""
    names = frozenset(refused)

    def find(text: Text) -> Found:
        for i, token in enumerate(text.tokens):
            if token.kind == "word" and token.text in names and not is_member(text.tokens, i):
                yield token, message.format(token.text)

    return find


def long_long(text: Text) -> Found:
    for a, b in pairwise(text.tokens):
        if a.text == b.text == "long":
            yield a, "Metal has no long long"


def new_delete(text: Text) -> Found:
    tokens = text.tokens
    for i, token in enumerate(tokens):
        if token.kind != "word" or is_member(tokens, i) or token.text not in ("new", "delete"):
            continue
        if token.text == "delete" and i and tokens[i - 1].text == "=":  # a deleted function
            continue
        yield token, f"Metal has no {token.text}: there is no heap"


def noexcept_operator(text: Text) -> Found:
    tokens = text.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.text != "noexcept" or tokens[i + 1].text != "(" or not i:
            continue
        if tokens[i - 1].text != ")" and tokens[i - 1].kind != "word":  # behind these it belongs to a function's type
            yield token, "Metal has no noexcept operator"


def std(text: Text) -> Found:
    tokens = text.tokens
    if any(a.text == "namespace" and b.text == "std" and (not i or tokens[i - 1].text != "using") for i, (a, b) in enumerate(pairwise(tokens))):
        return  # a namespace of the text's own
    for i, token in enumerate(tokens[:-1]):
        is_scope = tokens[i + 1].text == "::" and not (i and tokens[i - 1].text == "::" and tokens[i - 2].kind == "word")
        if token.text == "std" and (is_scope or (i and tokens[i - 1].text == "namespace")):
            yield token, "Metal has no C++ standard library"


def literals(text: Text) -> Found:
    """Suffixes: u, l and both behind integers, f, h and bf behind what has a point or an exponent."""
    floats = _FLOAT_SUFFIXES | ({"bf"} if text.language >= (3, 1) else set())
    for token in text.tokens:
        if token.kind != "number":
            continue
        if (number := _FLOAT.fullmatch(token.text)) is not None:
            if number["suffix"].lower() not in floats:
                needs = " before Metal 3.1" if number["suffix"].lower() == "bf" else ""
                yield token, f"{token.text} has the suffix {number['suffix']}, which Metal does not have{needs}"
        elif (number := _INTEGER.fullmatch(token.text)) is not None and number["suffix"].lower() not in _INTEGER_SUFFIXES:
            yield token, f"{token.text} has the suffix {number['suffix']}, which Metal does not have behind an integer"


def reserved_names(text: Text) -> Found:
    """Words of the language where a name is declared."""
    tokens = text.tokens
    reserved = _RESERVED | ({"bfloat"} if text.language >= (3, 1) else set()) | ({"coherent"} if text.language >= (3, 2) else set())
    for i in range(1, len(tokens) - 1):
        token, before, after = tokens[i], tokens[i - 1], tokens[i + 1]
        if token.text not in reserved or before.kind != "word" or (after.text not in _ENDS_NAME and after.text != "("):
            continue
        if (is_builtin_type(before.text) and before.text not in ("unsigned", "signed")) or before.text in text.outline.type_names:
            yield token, f"{token.text} is a word of the language and cannot be a name"


def main_function(text: Text) -> Found:
    for function in text.outline.functions:
        if function.name == "main" and not function.in_class:
            yield text.tokens[function.parameters[0] - 1], "a function cannot be called main"


def coherent(text: Text) -> Found:
    if text.language >= (3, 2):
        return
    for i, token in enumerate(text.tokens):
        if token.text == "coherent" and not is_member(text.tokens, i):
            yield token, "coherent needs Metal 3.2"


def long_integers(text: Text) -> Found:
    if text.language >= (2, 2):
        return
    for i, token in enumerate(text.tokens):
        if token.text in ("long", "ulong", "int64_t", "uint64_t") and not is_member(text.tokens, i):
            yield token, f"{token.text} needs Metal 2.2"


def headers(text: Text) -> Found:
    for token in text.tokens:
        included = _INCLUDE.match(token.text) if token.kind == "directive" else None
        if included is not None and included[1] not in _HEADERS:
            yield token, f"there is no header <{included[1]}> in the software Metal"
