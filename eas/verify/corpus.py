"""The Metal texts that our tests generate, shipped in one compressed file; `tools/make_corpus.py` makes it."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("corpus.xz")
_BETWEEN = "\x1e"  # the ASCII separator of records


class Text(NamedTuple):
    """A Metal text, the kernel in it, and what it is compiled for."""

    kernel: str
    language: str
    math_mode: str
    source: str


def packed(text: Text) -> str:
    """One record of the file."""
    return "\n".join(text)


def unpacked(record: str) -> Text:
    return Text(*record.split("\n", 3))


def read() -> list[Text]:
    """All texts, in an order in which any beginning is a fair sample."""
    return [unpacked(record) for record in lzma.decompress(PATH.read_bytes()).decode().split(_BETWEEN)]


def write(texts: Iterable[Text]) -> None:
    """Write the file; equal texts in equal order give equal bytes."""
    PATH.write_bytes(lzma.compress(_BETWEEN.join(map(packed, texts)).encode(), preset=9 | lzma.PRESET_EXTREME))
