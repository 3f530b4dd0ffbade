"""Address spaces checked for real: the text compiled a second time, as C++ for OpenCL, which has them.

That language is not Metal, so most of its errors mean nothing here. One that names two different
address spaces does: a pointer of one space was used as a pointer of another. So do the few that are
in `_MEANT`: both languages have them, and the shim, which has no spaces and no true vectors, cannot see them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.tokens import OWN_FILE, OWN_LINES, Edits, tokenize

# Without a generic space what names none is the thread's own, as in Metal.
_EXTENSIONS = "-cl-ext=-__opencl_c_generic_address_space,-__opencl_c_pipes,-__opencl_c_device_enqueue,-__opencl_c_program_scope_global_variables"
FLAGS = ("-x", "cl", "-cl-std=clc++2021", "-Xclang", _EXTENSIONS, "-cl-no-stdinc", "-Wno-everything", "-ferror-limit=200", "-fno-caret-diagnostics", "-fno-spell-checking", "-S", "-o", "/dev/null")
_SPACES = {"__global": "device", "__local": "threadgroup", "__private": "thread", "__constant": "constant"}
_DIAGNOSTIC = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>fatal error|error|note): (?P<text>.*)$", re.MULTILINE)
_POINTER = re.compile(r"'[^']*?(__global|__local|__private|__constant)[^'*&\[]*[*&\[]")
_PASSED = re.compile(r"cannot (?:pass|bind) .*address space '(\w+)'.*address space '(\w+)'")
_CONVERTED = re.compile(r"no known conversion from '[^']*?(__global|__local|__private|__constant)[^']*' to '[^']*?(__global|__local|__private|__constant)[^'*&]*[*&]")
_TEMPLATE = re.compile(r"candidate template ignored: deduced type '[^']*?(__global|__local|__private|__constant)[^']*' of .* does not match adjusted type '[^']*?(__global|__local|__private|__constant)[^']*' of argument")
_OBJECT = re.compile(r"cannot initialize object parameter of type '[^']*?(__global|__local|__private|__constant)[^']*' with an expression of type '[^']*?(__global|__local|__private|__constant)[^']*'")
_METHOD = re.compile(r"'this' object is in address space '(\w+)', but method expects object in address space '(\w+)'")
_REFERENCE = re.compile(r"binding reference of type '[^']*?(__global|__local|__constant)[^']*' to value of type '(?:[^']*?(__global|__local|__private|__constant))?[^']*' changes address space")
_CALLS = ("no matching", "no viable", "invalid operands to binary expression")
_MEANT = {  # what the compiler says -> what Metal means
    "field may not be qualified with an address space": "a member cannot name an address space: its struct lies in one",
    "parameter may not be qualified with an address space": "a parameter is the thread's own: only what it points to can lie in another address space",
    "return type cannot be qualified with address space": "a result is the thread's own: only what it points to can lie in another address space",
    "multiple address spaces specified for type": "a type can name one address space",
    "initializer element is not a compile-time constant": "a constant needs a value that the compiler knows",
    "excess elements in vector initializer": "a vector's list has more values than components",
    "address of vector element requested": "a vector's component has no address",
    "array subscript is not an integer": "an index must be an integer",
    "non-const reference cannot bind to vector element": "a reference cannot name a vector's component",
}
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
        if not error["file"].endswith("eas_spaces.h"):
            _judge(error, notes, name, metal)


def _judge(error: re.Match[str], notes: Sequence[str], name: str, metal: str) -> None:
    """Raise if the error means something in Metal."""
    if (meant := _MEANT.get(error["text"])) is not None:
        raise _refusal(error, name, metal, f"Metal: {meant}")
    if (wrong := _OBJECT.search(error["text"])) is not None and wrong[1] != wrong[2]:
        raise _wrong_object(error, name, metal, has=wrong[2], wanted=wrong[1])
    if (bound := _REFERENCE.search(error["text"])) is not None and bound[1] != bound[2]:
        has = f"a {_SPACES[bound[2]]} value" if bound[2] else "a value that is nowhere in memory"
        raise _refusal(error, name, metal, f"Metal: a {_SPACES[bound[1]]} reference cannot name {has}", "copy the value into a variable")
    spaces = _mismatch(error["text"], notes)
    if spaces is not None and _METHOD.search(notes[0] if notes else ""):
        raise _wrong_object(error, name, metal, has=spaces[0], wanted=spaces[1])
    if spaces is not None:
        has, wanted = (_SPACES[s] for s in spaces)
        raise _refusal(
            error, name, metal, f"Metal: a {has} pointer cannot be used as a {wanted} pointer", f"write {has} in the pointer's type, or copy the value"
        )


def _wrong_object(error: re.Match[str], name: str, metal: str, *, has: str, wanted: str) -> MetalSourceError:
    message = f"Metal: a method for {_SPACES[wanted]} objects is called on a {_SPACES[has]} object"
    return _refusal(error, name, metal, message, f"write {_SPACES[has]} behind the method's parameters, or copy the object")


def _mismatch(text: str, notes: Sequence[str]) -> tuple[str, str] | None:
    """(the space that a pointer has, the space that is wanted) if that is what an error is about."""
    if text.startswith(_CALLS):
        return _refused_by_all([n for n in notes if "candidate" in n])
    named = _POINTER.findall(re.sub(r" \(aka '[^']*'\)", "", text))
    if len(named) != 2 or named[0] == named[1]:
        return None
    wants_first = text.startswith(("cannot initialize", "assigning to"))
    return (named[1], named[0]) if wants_first else (named[0], named[1])


def _refused_by_all(candidates: Sequence[str]) -> tuple[str, str] | None:
    """What the first candidate of a call says if all of them are about address spaces."""
    found = [_spaces_of(c) for c in candidates]
    if not found or any(f is None or f[0] == f[1] for f in found):
        return None
    return found[0]


def _spaces_of(candidate: str) -> tuple[str, str] | None:
    if "implicit copy" in candidate or "implicit move" in candidate:  # Metal copies from and to every space
        return None
    passed = _PASSED.search(candidate) or _CONVERTED.search(candidate) or _METHOD.search(candidate)
    if passed is not None:
        return (passed[1], passed[2]) if {passed[1], passed[2]} <= _SPACES.keys() else None
    template = _TEMPLATE.search(candidate)
    return None if template is None else (template[2], template[1])


def _refusal(error: re.Match[str], name: str, metal: str, message: str, hint: str = "") -> MetalSourceError:
    line = int(error["line"])
    lines = metal.splitlines()
    here = error["file"] == OWN_FILE
    text = lines[line - 1] if here and line <= len(lines) else ""
    return MetalSourceError(message, line=line, file=name if here else error["file"], text=text, column=int(error["column"]), hint=hint)
