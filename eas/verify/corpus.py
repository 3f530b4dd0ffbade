"""Metal texts that are shipped compressed: those that our tests generate, and those that they expect to be refused; `tools/make_corpus.py` makes both."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("corpus.xz")
TWINS_PATH = Path(__file__).with_name("twins.xz")
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
    PATH.write_bytes(_compressed(map(packed, texts)))


class Twins(NamedTuple):
    """What is wrong with a text, its language level, the text, and one that differs from it in being valid."""

    name: str
    language: str
    refused: str
    taken: str


def read_twins() -> list[Twins]:
    """All pairs."""
    records = lzma.decompress(TWINS_PATH.read_bytes()).decode().split(_BETWEEN)
    return [Twins(*fields) for fields in zip(*[iter(records)] * len(Twins._fields), strict=True)]


def write_twins(twins: Iterable[Twins]) -> None:
    """Write their file."""
    TWINS_PATH.write_bytes(_compressed(field for pair in twins for field in pair))


def _compressed(records: Iterable[str]) -> bytes:
    return lzma.compress(_BETWEEN.join(records).encode(), preset=9 | lzma.PRESET_EXTREME)
