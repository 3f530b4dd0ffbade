"""Metal text as tokens that know where they stand, and edits that keep every line in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A directive is one token. `>>` is two, because template lists end in it more often than shifts are read here.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<word>[A-Za-z_$]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<mark>::|->|[-+*/%&|^=!<]=|&&|\|\||\+\+|--|.)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, string, mark or directive, with its place in the text."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokenize(text: str) -> list[Token]:
    """The tokens, without space and comments."""
    return [
        Token(m.lastgroup or "mark", m[0], m.start())
        for m in _TOKEN.finditer(text)
        if m.lastgroup != "space"
    ]


def closing(tokens: Sequence[Token], at: int) -> int:
    """The index of the bracket that closes the one at `at`; the last index if none does."""
    depth = 0
    for i in range(at, len(tokens)):
        text = tokens[i].text
        if text in OPENING:
            depth += 1
        elif text in CLOSING:
            depth -= 1
            if depth == 0:
                return i
    return len(tokens) - 1


def unmatched(tokens: Sequence[Token]) -> Token | None:
    """A bracket that is never closed, or that closes none."""
    opened: list[Token] = []
    for token in tokens:
        if token.text in OPENING:
            opened.append(token)
        elif token.text in CLOSING and (not opened or OPENING[opened.pop().text] != token.text):
            return token
    return opened[-1] if opened else None


def closing_angle(tokens: Sequence[Token], at: int) -> int:
    """The index of the `>` that closes the template list opened at `at`."""
    depth, i = 0, at
    while i < len(tokens):
        text = tokens[i].text
        if text in OPENING:
            i = closing(tokens, i)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(tokens) - 1


def split_at_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """The parts between commas that stand in no bracket and in no template list."""
    parts: list[list[Token]] = [[]]
    i = 0
    while i < len(tokens):
        text = tokens[i].text
        end = i
        if text in OPENING:
            end = closing(tokens, i)
        elif text == "<" and i and tokens[i - 1].kind == "word":
            end = closing_angle(tokens, i)
        if text == "," and end == i:
            parts.append([])
        else:
            parts[-1] += tokens[i : end + 1]
        i = end + 1
    return parts if len(parts) > 1 or parts[0] else []


OWN_FILE = "<metal>"  # what a text is called in front of the compiler: no name of the user's gets into generated text
OWN_LINES = f'# 1 "{OWN_FILE}"\n'
_LINE_MARKER = re.compile(r'^# ([0-9]{1,9}) "((?:[^"\\\n]|\\.)*)".*$|^#line ([0-9]{1,9}).*$', re.MULTILINE)


def line_of(text: str, at: int) -> tuple[int, str]:
    """The line and file of a place, as the line markers of the preprocessor tell; no file for the text itself."""
    markers = list(_LINE_MARKER.finditer(text, 0, at))
    if not markers:
        return text.count("\n", 0, at) + 1, ""
    last = markers[-1]
    file = "" if last[2] in (None, OWN_FILE) else re.sub(r"\\(.)", r"\1", last[2])
    return int(last[1] or last[3]) + text.count("\n", last.end(), at) - 1, file


def join(tokens: Iterable[Token]) -> str:
    """The tokens as one line of code."""
    text = ""
    for token in tokens:
        glue = " " if text and _is_word(text[-1]) and _is_word(token.text[0]) else ""
        text += glue + token.text
    return text


def _is_word(character: str) -> bool:
    return character.isalnum() or character in "_\"'"


class Edits:
    """Replacements in a text; line breaks inside a replaced range stay, so line numbers do not move."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, by: str = "") -> None:
        lines = self.text.count("\n", start, end) - by.count("\n")
        self._edits.append((start, end, by + "\n" * max(lines, 0)))

    def apply(self) -> str:
        """The new text; an edit inside a range that another one replaces is dropped with it."""
        parts: list[str] = []
        at = 0
        for start, end, by in sorted(self._edits, key=lambda e: (e[0], -e[1])):
            if start < at:
                continue
            parts += [self.text[at:start], by]
            at = end
        return "".join([*parts, self.text[at:]])
