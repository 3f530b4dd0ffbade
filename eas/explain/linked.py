"""Texts of one kernel whose lines know each other: the user's lines, the IR, the text of a target."""

from __future__ import annotations

import inspect
import linecache
import os
import re
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import NamedTuple

from eas.base.errors import Unsupported
from eas.codegen.llvm.generate import generate
from eas.compiler import Variant
from eas.frontend.our_frames import is_internal
from eas.ir import IRModule, Loc
from eas.ir.text import LocTable, print_module
from eas.schedule.cpu_steps import schedule

MOST_LINES = 6000  # of one text on a page; what is left out is said
_NEAR = 4  # lines between two blocks that are shown as one
_MARK = re.compile(r" ;@(\d+)$")
_PLACE = re.compile(r" @ (\d+)")

Spot = tuple[str, int]
"""A file and a line of it."""


class TextLine(NamedTuple):
    """A line of a text, and the user's lines that it is from, the innermost first."""

    text: str
    spots: tuple[Spot, ...] = ()


class Listing(NamedTuple):
    """One text of a kernel; `note` stands in its place where there is none."""

    name: str
    lines: Sequence[TextLine] = ()
    note: str = ""


class SourceBlock(NamedTuple):
    """A function as the user wrote it."""

    filename: str
    first: int
    lines: Sequence[str]

    @property
    def shown_name(self) -> str:
        return os.path.basename(self.filename)


# --- places ---------------------------------------------------------------------------------------


def spots_of(loc: Loc | None) -> tuple[Spot, ...]:
    """The lines of a place: where the op stands, and the calls that lead there."""
    if loc is None:
        return ()
    found = (Loc._decode(code, lasti)[:2] for code, lasti in loc.frames)
    return tuple(dict.fromkeys((filename, line) for filename, line in found))


def source_blocks(codes: Iterable[CodeType], listings: Sequence[Listing]) -> list[SourceBlock]:
    """The functions that the lines of texts are from; those of `codes` come first."""
    blocks: list[SourceBlock] = []
    for code in codes:
        _add_block(blocks, code.co_filename, code.co_firstlineno)
    for spot in dict.fromkeys(spot for listing in listings for line in listing.lines for spot in line.spots):
        if not any(b.filename == spot[0] and b.first <= spot[1] < b.first + len(b.lines) for b in blocks):
            _add_single(blocks, spot)
    return blocks


def joined(blocks: Sequence[SourceBlock]) -> list[SourceBlock]:
    """In the order of their files; those with few lines between them are one block."""
    made: list[SourceBlock] = []
    for block in sorted(blocks, key=lambda b: (b.filename, b.first)):
        last = made[-1] if made else None
        end = last.first + len(last.lines) if last else 0
        if last is None or last.filename != block.filename or block.first > end + _NEAR:
            made.append(block)
            continue
        between = [text.rstrip("\n") for text in linecache.getlines(block.filename)[end - 1 : block.first - 1]]
        rest = block.lines[max(0, end - block.first) :]
        made[-1] = SourceBlock(last.filename, last.first, [*last.lines, *between, *rest])
    return made


def _add_block(blocks: list[SourceBlock], filename: str, first: int) -> None:
    rest = linecache.getlines(filename)[first - 1 :]
    try:
        lines = inspect.getblock(rest) if rest else []
    except (SyntaxError, IndentationError):
        lines = rest[:1]
    shown = [text.rstrip("\n") for text in lines]
    if shown and not any(b.filename == filename and b.first == first for b in blocks):
        blocks.append(SourceBlock(filename, first, shown))


def _add_single(blocks: list[SourceBlock], spot: Spot) -> None:
    """A line of a function that nobody named: the function around it."""
    filename, line = spot
    lines = linecache.getlines(filename)
    head = line
    while 0 < head <= len(lines):
        text = lines[head - 1].lstrip()
        if text.startswith(("def ", "async def ")) and _indent(lines[head - 1]) < _indent(lines[line - 1]):
            while head > 1 and lines[head - 2].lstrip().startswith("@"):
                head -= 1
            _add_block(blocks, filename, head)
            if any(b.filename == filename and b.first <= line < b.first + len(b.lines) for b in blocks):
                return
            break
        head -= 1
    if 0 < line <= len(lines):
        blocks.append(SourceBlock(filename, line, [lines[line - 1].rstrip("\n")]))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip()) if text.strip() else 0


# --- texts ----------------------------------------------------------------------------------------


def ir_listing(name: str, module: IRModule) -> Listing:
    """The IR, each line with the place of its instruction."""
    locs = LocTable()
    marked, plain = print_module(module, locs).split("\n"), print_module(module).split("\n")
    assert len(marked) == len(plain), "places add no lines"
    lines = [TextLine(b, spots_of(_place(a, b, locs))) for a, b in zip(marked, plain, strict=True)]
    return _bounded(Listing(name, lines[:-1] if plain[-1] == "" else lines))


def _place(marked: str, plain: str, locs: LocTable) -> Loc | None:
    for found in _PLACE.finditer(marked):
        if marked[: found.start()] + marked[found.end() :] == plain:
            return locs.places[int(found[1])]
    return None


def native_listings(variant: Variant) -> list[Listing]:
    """What the variant is for the CPU: scheduled IR and LLVM text."""
    check_bounds = variant.settings.check_bounds
    try:
        scheduled = schedule(variant.module, variant.target, check_bounds)
        marks = LocTable()
        text = generate(scheduled, variant.target, check_bounds, marks).llvm
    except Unsupported as error:
        return [Listing("LLVM", note=f"The CPU cannot run it: {error.message}")]
    lines: list[TextLine] = []
    last: tuple[Spot, ...] = ()
    for raw in text.rstrip("\n").split("\n"):
        found = _MARK.search(raw)
        shown = _MARK.sub("", raw)
        # A label or a phi that was written aside belongs to the instruction around it.
        last = spots_of(marks.places[int(found[1])]) if found else last if _belongs(shown) else ()
        lines.append(TextLine(shown, last))
    return [_bounded(Listing("LLVM", lines)), ir_listing("IR, scheduled for the CPU", scheduled)]


def _belongs(text: str) -> bool:
    return text.startswith("  ") or text.endswith(":")


def metal_listings(variant: Variant) -> list[Listing]:
    """What the variant is for Metal: its text."""
    try:
        code = variant.metal
    except Unsupported as error:
        return [Listing("MSL", note=f"Metal cannot run it: {error.message}")]
    texts = code.text.rstrip("\n").split("\n")
    places = [*code.lines, *[None] * len(texts)]
    lines = [TextLine(shown, spots_of(loc)) for shown, loc in zip(texts, places, strict=False)]
    return [_bounded(Listing("MSL", lines))]


def _bounded(listing: Listing) -> Listing:
    rest = len(listing.lines) - MOST_LINES
    if rest <= 0:
        return listing
    return Listing(listing.name, listing.lines[:MOST_LINES], f"{rest} more lines are left out here; `compile(...)` has all of them.")


def is_users(filename: str) -> bool:
    """Whether a file is not part of eas itself."""
    return not is_internal(filename)
