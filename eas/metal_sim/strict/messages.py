"""The compiler's words about a Metal text, told as Metal would: types by their Metal names, lines of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.tokens import OWN_FILE

_DIAGNOSTIC = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>fatal error|error|warning|note): (?P<text>.*)$", re.MULTILINE)
_NAMES = {
    "bool": "bool", "char": "char", "signed char": "char", "unsigned char": "uchar", "short": "short", "unsigned short": "ushort",
    "int": "int", "unsigned int": "uint", "long": "long", "unsigned long": "ulong", "_Float16": "half", "half": "half",
    "float": "float", "bfloat": "bfloat", "uchar": "uchar", "ushort": "ushort", "uint": "uint", "ulong": "ulong",
}  # fmt: skip
_SIMD_TYPES = "int, uint, short, ushort, char, uchar, half, float and their vectors"

# What an error means in Metal: (the compiler's text, the hint).
HINTS: tuple[tuple[str, str], ...] = (
    (r"call to '(simd|quad)_(and|or|xor)'", "this function takes int, uint, short, ushort, char, uchar and their vectors"),
    (r"call to '(simd|quad)_\w+'", f"Metal has it for {_SIMD_TYPES}; convert bool, bfloat and 64-bit values first"),
    (r"call to 'atomic_\w+'", "it takes a pointer to an atomic type that has this function, such as device atomic_uint*"),
    (r"call to '\w+' is ambiguous", "give all arguments one type; Metal has no bfloat functions: convert with float(x)"),
    (r"unknown type name 'bfloat'|identifier 'bfloat'", "bfloat needs Metal 3.1"),
    (r"to bfloat implicitly", "write bfloat(x)"),
    (r"deleted operator '(?!=')|'bfloat' to 'half' invokes a deleted", "bfloat meets float and half only when asked: write bfloat(x), float(x) or half(x)"),
    (r"conversion from '\w+[234]' to '\w+[234]'", "vectors convert only when asked: float4(v)"),
    (r"memory_order", 'use memory_order_relaxed, or language="4.1"'),
)


@dataclass(frozen=True, slots=True)
class _Told:
    """An error and the notes that follow it."""

    error: re.Match[str]
    notes: list[re.Match[str]]


def refusal(stderr: str, name: str, metal: str, shim: Path) -> MetalSourceError:
    """The compiler's first error that concerns a line of the program, as a Metal error."""
    told = _told(stderr)
    if not told:
        return MetalSourceError(f"the Metal text does not compile: {stderr.strip()[:2000]}")
    ranked = [(place, t) for t in told if (place := _place(t, shim)) is not None]
    place, first = next((p for p in ranked if p[0]["file"] == OWN_FILE), ranked[0] if ranked else (told[0].error, told[0]))
    message = _message(first)
    hint = next((h for pattern, h in HINTS if re.search(pattern, message)), "")
    line, lines = int(place["line"]), metal.splitlines()
    here = place["file"] == OWN_FILE
    text = lines[line - 1] if here and line <= len(lines) else ""
    shown = message if here else f"{message} (in {Path(place['file']).name})"
    return MetalSourceError(f"Metal: {shown}", line=line, file=name if here else place["file"], text=text, column=int(place["column"]), hint=hint)


def _told(stderr: str) -> list[_Told]:
    found: list[_Told] = []
    for match in _DIAGNOSTIC.finditer(stderr):
        if match["kind"] != "note":
            found.append(_Told(match, []))
        elif found:
            found[-1].notes.append(match)
    return [told for told in found if told.error["kind"] != "warning"]


def _place(told: _Told, shim: Path) -> re.Match[str] | None:
    """Where in the program an error is; one inside the shim belongs to the line that asked for it."""
    if not told.error["file"].startswith(str(shim)):
        return told.error
    asked: Sequence[re.Match[str]] = [n for n in told.notes if not n["file"].startswith(str(shim)) and "requested here" in n["text"]]
    return asked[0] if asked else None


def _message(told: _Told) -> str:
    text = plain(told.error["text"])
    if "no viable overloaded" in text or "no viable conversion" in text or "cannot initialize" in text:
        for note in told.notes:
            wrong = re.search(r"no known conversion from '([^']+)' to '(?:const )?bfloat", note["text"])
            if wrong is not None:
                return f"cannot convert {plain(wrong[1])} to bfloat implicitly"
        if re.search(r"conversion from '[\w ]+' to 'bfloat'", text):
            return re.sub(r".*from '([\w ]+)' to 'bfloat'", r"cannot convert \1 to bfloat implicitly", text)
    return text


def plain(text: str) -> str:
    """Compiler text with Metal's names for types and without the names of the shim."""
    text = re.sub(r"static assertion failed(?: due to requirement '(?:[^'\\]|\\.)*')?: ", "", text)
    if text.startswith("variable length arrays"):
        return "an array needs a constant length"
    text = re.sub(r" \(aka '[^']*'\)| \[-W[^\]]*\]$", "", text)
    text = re.sub(r"(?:metal::)?(packed_)?vec<([\w ]+), (\d)>", lambda m: f"{m[1] or ''}{_NAMES.get(m[2], m[2])}{m[3]}", text)
    text = text.replace("_Float16", "half").replace("metal::", "")
    return re.sub(r"\b(?:eas_\w+|eas)::", "", text)
