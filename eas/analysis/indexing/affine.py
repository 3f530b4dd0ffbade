"""Offsets as formulas: a uniform part plus, per block axis, strides times positions or vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eas.analysis.indexing.linear import ONE, ZERO, Linear, Symbol
from eas.base.types import Shape


@dataclass(frozen=True, slots=True)
class Term:
    """stride * position along `axis`, or stride * the elements of a 1-D vector along `axis`.

    `along` is the axis of the vector's own block that runs; its other axes do not matter.
    """

    axis: int
    stride: Linear
    vector: Symbol | None = None
    along: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.axis, -1 if self.vector is None else self.vector.order, self.along)

    def __str__(self) -> str:
        what = f"iota{self.axis}" if self.vector is None else f"{self.vector}[iota{self.axis}]"
        return what if self.stride == ONE else f"{what}*{self.stride.as_factor()}"


@dataclass(frozen=True, slots=True)
class Affine:
    """offset + sum of terms; `terms` is sorted and holds one term per axis and vector."""

    offset: Linear = ZERO
    terms: tuple[Term, ...] = ()

    @staticmethod
    def of(offset: Linear, terms: Sequence[Term]) -> Affine:
        merged: dict[tuple[int, int, int], Term] = {}
        for term in terms:
            old = merged.get(term.key)
            merged[term.key] = (
                term if old is None else replace(term, stride=old.stride + term.stride)
            )
        kept = (merged[key] for key in sorted(merged))
        return Affine(offset, tuple(t for t in kept if t.stride != ZERO))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which the elements differ, ascending."""
        return tuple(dict.fromkeys(t.axis for t in self.terms))

    @property
    def is_uniform(self) -> bool:
        return not self.terms

    def symbols(self) -> tuple[Symbol, ...]:
        """Everything that the formula names, vectors included."""
        strides = (s for t in self.terms for s in t.stride.symbols())
        vectors = (t.vector for t in self.terms if t.vector is not None)
        return tuple(dict.fromkeys((*self.offset.symbols(), *strides, *vectors)))

    def on(self, axis: int) -> tuple[Term, ...]:
        return tuple(t for t in self.terms if t.axis == axis)

    def stride(self, axis: int) -> Linear | None:
        """The distance of neighbours along `axis`; None where a vector decides it."""
        terms = self.on(axis)
        if any(t.vector is not None for t in terms):
            return None
        return terms[0].stride if terms else ZERO

    def __add__(self, other: Affine) -> Affine:
        return Affine.of(self.offset + other.offset, self.terms + other.terms)

    def __neg__(self) -> Affine:
        return self.scaled(Linear(-1))

    def __sub__(self, other: Affine) -> Affine:
        return self + -other

    def scaled(self, factor: Linear) -> Affine:
        terms = [replace(t, stride=t.stride * factor) for t in self.terms]
        return Affine.of(self.offset * factor, terms)

    def moved(self, where: Sequence[int]) -> Affine:
        """The formula after axis i became axis where[i]."""
        return Affine.of(self.offset, [replace(t, axis=where[t.axis]) for t in self.terms])

    def split(self, shape: Shape) -> Affine | None:
        """The formula of a 1-D block after a reshape to `shape`; None for vectors."""
        if any(t.vector is not None for t in self.terms):
            return None
        terms, inner = [], 1
        for axis in reversed(range(len(shape))):
            if shape[axis] > 1:
                terms += [
                    replace(t, axis=axis, stride=t.stride * Linear(inner)) for t in self.terms
                ]
            inner *= shape[axis]
        return Affine.of(self.offset, terms)

    @property
    def size(self) -> int:
        """How many products the formula has; very long ones are not worth keeping."""
        return len(self.offset.terms) + sum(max(1, len(t.stride.terms)) for t in self.terms)

    def __str__(self) -> str:
        offset = [] if self.terms and self.offset == ZERO else [str(self.offset)]
        return " + ".join([*offset, *map(str, self.terms)])
