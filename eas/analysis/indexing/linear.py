"""Polynomials with integer coefficients over the uniform scalars of a kernel, in normal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd

from eas.ir import Value


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A value that a formula names; `kind` tells a loop counter from the numbers derived from it.

    "value": the value itself (of a block: its elements, all equal, or those along one axis);
    "iteration": how many iterations of the loop with this counter ran before this one;
    "trips": how many iterations that loop runs; "offset": the offset of a scalar pointer.
    """

    order: int
    kind: str
    name: str = field(compare=False)
    value: Value = field(compare=False)

    def __str__(self) -> str:
        return self.name if self.kind == "value" else f"{self.kind}({self.name})"


Monomial = tuple[Symbol, ...]  # sorted; the empty product is 1


@dataclass(frozen=True, slots=True)
class Linear:
    """const + sum of coefficient * monomial; equal formulas are equal objects."""

    const: int = 0
    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Linear:
        rest = {m: c for m, c in terms.items() if m and c}
        return Linear(terms.get((), 0), tuple(sorted(rest.items())))

    @staticmethod
    def symbol(symbol: Symbol) -> Linear:
        return Linear(0, (((symbol,), 1),))

    def items(self) -> Iterator[tuple[Monomial, int]]:
        """Every monomial with its coefficient, the constant as that of the empty product."""
        if self.const:
            yield (), self.const
        yield from self.terms

    @property
    def literal(self) -> int | None:
        """The number, if the formula is one."""
        return None if self.terms else self.const

    @property
    def content(self) -> int:
        """The largest number that divides every coefficient and the constant."""
        return gcd(self.const, *(c for _, c in self.terms))

    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(dict.fromkeys(s for m, _ in self.terms for s in m))

    def coefficient(self, symbol: Symbol) -> int:
        """The number in front of the symbol standing alone."""
        return next((c for m, c in self.terms if m == (symbol,)), 0)

    def __add__(self, other: Linear) -> Linear:
        total = dict(self.items())
        for m, c in other.items():
            total[m] = total.get(m, 0) + c
        return Linear.of(total)

    def __neg__(self) -> Linear:
        return Linear(-self.const, tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Linear) -> Linear:
        return self + -other

    def __mul__(self, other: Linear) -> Linear:
        total: dict[Monomial, int] = {}
        for m, c in self.items():
            for n, d in other.items():
                both = tuple(sorted(m + n))
                total[both] = total.get(both, 0) + c * d
        return Linear.of(total)

    def divided(self, n: int) -> Linear:
        """Every coefficient over `n`, which must divide them all."""
        assert all(c % n == 0 for _, c in self.items())
        return Linear(self.const // n, tuple((m, c // n) for m, c in self.terms))

    def replaced(self, symbol: Symbol, by: Linear) -> Linear:
        """`by` in place of the symbol where it stands alone."""
        times = Linear(self.coefficient(symbol))
        return self + times * (by - Linear.symbol(symbol))

    def evaluate(self, values: Mapping[Symbol, int]) -> int:
        total = self.const
        for monomial, c in self.terms:
            for symbol in monomial:
                c *= values[symbol]
            total += c
        return total

    def __str__(self) -> str:
        parts = [_product(m, c) for m, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")

    def as_factor(self) -> str:
        """The text in parentheses where a product needs them."""
        return f"({self})" if len(self.terms) + bool(self.const) > 1 else str(self)


ZERO, ONE = Linear(), Linear(1)


def _product(monomial: Monomial, coefficient: int) -> str:
    names = "*".join(map(str, monomial))
    return {1: names, -1: f"-{names}"}.get(coefficient, f"{coefficient}*{names}")
