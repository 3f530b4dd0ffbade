"""Facts of a launch: what distinguishes the variants of a compiled kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FactKind = Literal["equals_0", "equals_1", "equals_2", "equals_3", "equals_4", "positive", "divisible_16", "aligned_64", "disjoint", "in_place", "fits_32"]

EQUALS: dict[FactKind, int] = {"equals_0": 0, "equals_1": 1, "equals_2": 2, "equals_3": 3, "equals_4": 4}
NEAR: tuple[FactKind, ...] = ("equals_2", "equals_3", "equals_4")
"""Of neighbours at such a distance, several are in one register."""


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """Something that a launch may find to hold; `arg` is empty for facts of the whole launch.

    equals_0 to equals_4, positive, divisible_16: of an integer scalar; aligned_64: a buffer starts at a
    multiple of 64 bytes; disjoint: no written buffer overlaps another argument; in_place: some do,
    and start where the other starts; fits_32: every buffer has less than 2**31 elements.
    """

    kind: FactKind
    arg: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({self.arg})" if self.arg else self.kind
