"""The Python snippets of the Markdown pages: finds them, runs them, and keeps what they print in the page.

The ```python blocks of a page run in order, in one namespace, as if typed into one session. Not run:
a block after a line `<!-- not run: reason -->`. A ```text block after a line `<!-- prints -->` holds what
the block before it printed; an error that such a block ends with is printed as a traceback ends.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SKIP = re.compile(r"<!-- not run: \S.* -->")
PRINTS = "<!-- prints -->"
# What a snippet may rely on, whatever the reader's environment says.
ENVIRONMENT = {"EAS_BACKEND": "interp", "EAS_CACHE": "0", "EAS_NOOPT": "0", "EAS_DEBUG": "0"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where it is, and the comment line before it."""

    language: str
    text: str
    line: int  # of the first line of the text, counted from 1
    comment: str

    @property
    def is_run(self) -> bool:
        return self.language == "python" and not SKIP.fullmatch(self.comment)

    @property
    def is_output(self) -> bool:
        return self.language == "text" and self.comment == PRINTS


def runnable_pages() -> list[Path]:
    """The pages whose snippets run: README.md and all of docs/ but the translations, which have the same ones."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in pages if page.parent.name != "zh")]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = text.splitlines()
    start, before = 0, ""
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            if line.strip() and not start:
                before = line.strip()
        elif not start:
            start = number
        else:
            language = lines[start - 1][3:].strip()
            text_lines = [f"{inner}\n" for inner in lines[start : number - 1]]
            yield Block(language, "".join(text_lines), start + 1, before)
            start, before = 0, ""


def outputs(page: Path) -> list[tuple[Block, str]]:
    """Run the page; each block that ran, with what it printed."""
    namespace: dict[str, Any] = {"__name__": "example"}
    found = list(blocks(page.read_text(encoding="utf-8")))
    with _environment():
        return [(b, _run(page, i, b, namespace)) for i, b in enumerate(found) if b.is_run]


def refreshed(page: Path) -> str:
    """The page with every printed output as it is now."""
    text = page.read_text(encoding="utf-8")
    found = list(blocks(text))
    if not any(b.is_output for b in found):
        return text
    printed = {b.line: out for b, out in outputs(page)}
    new = {shown: printed[source.line] for source, shown in itertools.pairwise(found) if shown.is_output}
    return _replaced(text, new)


def with_blocks_of(original: str, translation: str) -> str:
    """A translated page with the fenced blocks of the original, if it has as many."""
    theirs, ours = list(blocks(original)), list(blocks(translation))
    if len(theirs) != len(ours):
        return translation
    return _replaced(translation, {b: other.text for b, other in zip(ours, theirs, strict=True)})


def _replaced(text: str, new: Mapping[Block, str]) -> str:
    lines = text.splitlines(True)
    for block in sorted(new, key=lambda b: b.line, reverse=True):
        at = block.line - 1
        lines[at : at + block.text.count("\n")] = new[block].splitlines(True)
    return "".join(lines)


def _run(page: Path, index: int, block: Block, namespace: dict[str, Any]) -> str:
    # A name of its own for each block, so that kernels find their source; errors show the last part.
    filename = f"{page}/{index}/example.py"
    linecache.cache[filename] = (len(block.text), None, block.text.splitlines(True), filename)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, filename, "exec"), namespace)
    except Exception as error:
        error.add_note(f"in the block at {page.relative_to(ROOT)}:{block.line}")
        raise
    return printed.getvalue().rstrip("\n") + "\n"


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
