"""Functions of a Metal text by their heads: names, parameter types, and what two of them must not share."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from eas.metal_sim.tokens import Token, closing, closing_angle, join, split_at_commas

ERASED = frozenset(["device", "thread", "threadgroup", "threadgroup_imageblock", "vertex", "fragment"])
ADDRESS_SPACES = frozenset(["device", "thread", "threadgroup", "threadgroup_imageblock", "constant"])


def parameter_types(tokens: Sequence[Token]) -> str:
    """The types of a parameter list in C++, without address spaces."""
    types = []
    for part in split_at_commas(tokens):
        kept = [replace(t, text="const") if t.text == "constant" else t for t in part if t.text not in ERASED]
        types.append(join(kept[:-1] if kept[-1].kind == "word" and len(kept) > 1 else kept))
    return ", ".join(types)


def outside_templates(tokens: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        if tokens[at].text == "<":
            at = closing_angle(tokens, at)
        else:
            kept.append(tokens[at])
        at += 1
    return kept


def signature(tokens: Sequence[Token]) -> list[str]:
    """What two functions must not share once address spaces are gone: everything but parameter names."""
    words: list[str] = []
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "(" and at and tokens[at - 1].text != "operator":
            close = closing(tokens, at)
            words.append("(")
            for part in split_at_commas(tokens[at + 1 : close]):
                plain = [t.text for t in part if t.text not in ADDRESS_SPACES - {"constant"}]
                plain = ["const" if w == "constant" else w for w in plain]
                if "=" in plain:
                    plain = plain[: plain.index("=")]
                if len(plain) > 1 and re.fullmatch(r"[A-Za-z_]\w*", plain[-1]) and plain[-1] != "const":
                    plain = plain[:-1]
                words += [*sorted(set(plain) & {"const"}), *(w for w in plain if w != "const"), ","]
            words.append(")")
            at = close
        elif text not in ADDRESS_SPACES:
            words.append(text)
        at += 1
    return words


def function_name(head: Sequence[Token]) -> str:
    """The name before the parameter list."""
    return next((a.text for a, b in itertools.pairwise(head) if b.text == "(" and a.kind == "word"), "a function")
