"""Address spaces checked for real: the text compiled a second time, as C++ for OpenCL, which has them.

That language is not Metal, so most of its errors mean nothing here. One that names two different
address spaces does: a pointer of one space was used as a pointer of another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.tokens import OWN_FILE, OWN_LINES, Edits, tokenize

FLAGS = ("-x", "cl", "-cl-std=clc++2021", "-cl-no-stdinc", "-Wno-everything", "-ferror-limit=200", "-fno-caret-diagnostics", "-fno-spell-checking", "-S", "-o", "/dev/null")
_SPACES = {"__global": "device", "__local": "threadgroup", "__private": "thread", "__constant": "constant"}
_DIAGNOSTIC = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>fatal error|error|note): (?P<text>.*)$", re.MULTILINE)
_POINTER = re.compile(r"'[^']*?(__global|__local|__private|__constant)[^'*&\[]*[*&\[]")
_PASSED = re.compile(r"cannot (?:pass|bind) .*address space '(\w+)'.*address space '(\w+)'")
_CONVERTED = re.compile(r"no known conversion from '[^']*?(__global|__local|__private|__constant)[^']*' to '[^']*?(__global|__local|__private|__constant)[^'*&]*[*&]")
_LITERAL = re.compile(r"((?!0[xX])[\d.]+(?:[eE][+-]?\d+)?)([hH]|bf|BF)")


def text_for_opencl(plain: str) -> str:
    """Preprocessed Metal text without what C++ for OpenCL cannot read: literals of half and bfloat, pragmas."""
    edits = Edits(plain)
    for token in tokenize(plain):
        if token.kind == "number" and (literal := _LITERAL.fullmatch(token.text)):
            edits.replace(token.start, token.end, f"{literal[1]}f" if "." in literal[1] else f"{literal[1]}.0f")
        elif token.kind == "directive" and "pragma" in token.text:
            edits.replace(token.start, token.end)
    return edits.apply()


def check(plain: str, name: str, metal: str, compile_text: Callable[[str, Sequence[str]], str]) -> None:
    """Raise `MetalSourceError` where a pointer changes its address space.

    `compile_text(text, flags)` runs the compiler on text and returns what it says.
    """
    said = compile_text(f'#include "eas_spaces.h"\n{OWN_LINES}{text_for_opencl(plain)}', FLAGS)
    found = list(_DIAGNOSTIC.finditer(said))
    for i, error in enumerate(found):
        if error["kind"] == "note":
            continue
        notes = []
        for note in found[i + 1 :]:
            if note["kind"] != "note":
                break
            notes.append(note["text"])
        spaces = _mismatch(error["text"], notes)
        if spaces is not None and not error["file"].endswith("eas_spaces.h"):
            raise _error(error, spaces, name, metal)


def _mismatch(text: str, notes: Sequence[str]) -> tuple[str, str] | None:
    """(the space that a pointer has, the space that is wanted) if that is what an error is about."""
    if text.startswith("no matching function"):
        passed = [_PASSED.search(n) or _CONVERTED.search(n) for n in notes if "candidate" in n]
        first = passed[0] if passed else None
        if first is None or not all(passed):
            return None
        return (first[1], first[2]) if {first[1], first[2]} <= _SPACES.keys() and first[1] != first[2] else None
    named = _POINTER.findall(text)
    if len(named) != 2 or named[0] == named[1]:
        return None
    wants_first = text.startswith(("cannot initialize", "assigning to"))
    return (named[1], named[0]) if wants_first else (named[0], named[1])


def _error(error: re.Match[str], spaces: tuple[str, str], name: str, metal: str) -> MetalSourceError:
    has, wanted = (_SPACES[s] for s in spaces)
    line = int(error["line"])
    lines = metal.splitlines()
    here = error["file"] == OWN_FILE
    text = lines[line - 1] if here and line <= len(lines) else ""
    return MetalSourceError(
        f"Metal: a {has} pointer cannot be used as a {wanted} pointer",
        line=line, file=name if here else error["file"], text=text, column=int(error["column"]),
        hint=f"write {has} in the pointer's type, or copy the value",
    )  # fmt: skip
