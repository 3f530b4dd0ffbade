"""Facts of a launch: what distinguishes the variants of a compiled kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

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


class Extent(NamedTuple):
    """Where a buffer lies: two of them share memory if they have one home there, and the same bytes of it."""

    home: object
    begin: int
    nbytes: int
    size: int
    """In elements."""

    def overlaps(self, other: Extent) -> bool:
        return self.home == other.home and self.begin < other.begin + other.nbytes and other.begin < self.begin + self.nbytes


def holds(fact: Fact, value: Any, extents: Mapping[str, Extent], writes: Collection[str]) -> bool:
    """Whether a fact holds of a launch; `value` is that of the scalar that it speaks of."""
    if fact.kind in EQUALS:
        return bool(value == EQUALS[fact.kind])
    if fact.kind == "divisible_16":
        return int(value) % 16 == 0
    if fact.kind == "positive":
        return int(value) > 0
    if fact.kind == "aligned_64":
        return extents[fact.arg].begin % 64 == 0
    if fact.kind == "fits_32":
        return all(e.size <= 0x7FFFFFFF for e in extents.values())
    shared = [(extents[w], e) for w in writes for n, e in extents.items() if n != w and extents[w].overlaps(e)]
    if fact.kind == "in_place":
        return bool(shared) and all(a.begin == b.begin for a, b in shared)
    assert fact.kind == "disjoint", fact
    return not shared
