"""What a range says: bounds, divisibility, and how elements follow each other along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from eas.base import dtypes
from eas.base.types import Shape, Type


@dataclass(frozen=True, slots=True)
class Contiguity:
    """Aligned groups along one axis, as Triton's AxisInfo.

    In each group of `run` elements they count up by one, from a multiple of `multiple`;
    in each group of `constancy` elements they are equal.
    """

    run: int = 1
    multiple: int = 1
    constancy: int = 1

    def at(self, n: int) -> int:
        """A divisor of the elements at positions that are multiples of `n`."""
        if n % self.run == 0:
            return self.multiple
        return gcd(self.multiple, n) if self.run % n == 0 else 1


@dataclass(frozen=True, slots=True)
class Range:
    """Every element lies in [lo, hi] and is a multiple of `multiple`; 0 is the only multiple of 0.

    Of a pointer it is the distance from its buffer's start in elements.
    """

    lo: int
    hi: int
    multiple: int = 1
    axes: tuple[Contiguity, ...] = ()

    @property
    def is_single(self) -> bool:
        return self.lo == self.hi

    def fits(self, lo: int, hi: int) -> bool:
        return lo <= self.lo and self.hi <= hi

    def __str__(self) -> str:
        text = f"[{self.lo}, {self.hi}]"
        if self.multiple != 1:
            text += f" multiple of {self.multiple}"
        for axis, c in enumerate(self.axes):
            if c.run > 1:
                text += f", axis {axis}: runs of {c.run} from multiples of {c.multiple}"
            if c.constancy > 1:
                text += f", axis {axis}: {c.constancy} equal"
        return text


def bounds(t: Type) -> tuple[int, int]:
    """Smallest and largest number of a type; pointers count in 64 bits."""
    dtype = dtypes.i64 if t.is_pointer else t.dtype
    return dtype.min, dtype.max


def full(t: Type) -> Range:
    """All that is known of a value is its type."""
    lo, hi = bounds(t)
    return Range(lo, hi, 1, (Contiguity(),) * t.rank)


def single(value: int, shape: Shape) -> Range:
    """Every element is `value`."""
    axes = tuple(Contiguity(1, abs(value), n) for n in shape)
    return Range(value, value, abs(value), axes)


def meet(n: int, *lengths: int) -> int:
    """The length of groups that nest in all given groups, along an axis of `n` elements."""
    return gcd(*(g for g in lengths if g < n)) or n


def tidy(r: Range, shape: Shape) -> Range:
    """The same knowledge, with bounds, divisibility and axes sharpened by each other."""
    if r.is_single:
        return single(r.lo, shape)
    lo, hi = r.lo, r.hi
    if r.multiple > 1 and -(-lo // r.multiple) <= hi // r.multiple:
        lo, hi = -(-lo // r.multiple) * r.multiple, hi // r.multiple * r.multiple
        if lo == hi:
            return single(lo, shape)
    axes = tuple(
        Contiguity(c.run, r.multiple if c.run == 1 else lcm(c.multiple, r.multiple), c.constancy)
        for c in r.axes
    )
    return Range(lo, hi, r.multiple, axes)


def fit(r: Range, t: Type, assume_exact: bool) -> tuple[Range, bool]:
    """The range in its type, and whether no element wraps; address arithmetic is assumed not to."""
    lo, hi = bounds(t)
    if r.fits(lo, hi):
        return tidy(r, t.shape), True
    if assume_exact and r.lo <= hi and lo <= r.hi:
        return tidy(Range(max(lo, r.lo), min(hi, r.hi), r.multiple, r.axes), t.shape), True
    bits = 64 if t.is_pointer else t.dtype.bits
    axes = tuple(Contiguity(1, 1, c.constancy) for c in r.axes)
    return tidy(Range(lo, hi, gcd(r.multiple, 1 << bits), axes), t.shape), False


def join(a: Range, b: Range, shape: Shape) -> Range:
    """What holds whichever of the two a value is."""
    axes = tuple(_join_axis(n, x, y) for n, x, y in zip(shape, a.axes, b.axes, strict=True))
    return tidy(Range(min(a.lo, b.lo), max(a.hi, b.hi), gcd(a.multiple, b.multiple), axes), shape)


def _join_axis(n: int, x: Contiguity, y: Contiguity) -> Contiguity:
    run = meet(n, x.run, y.run)
    return Contiguity(run, gcd(x.at(run), y.at(run)), meet(n, x.constancy, y.constancy))


def join_all(ranges: Sequence[Range], shape: Shape) -> Range:
    first, *others = ranges
    for other in others:
        first = join(first, other, shape)
    return first


def widen(old: Range, new: Range, t: Type) -> Range:
    """`join`, but a bound that moved goes to the end of its type: loops settle quickly."""
    lo, hi = bounds(t)
    both = join(old, new, t.shape)
    return tidy(
        Range(
            old.lo if both.lo == old.lo else lo,
            old.hi if both.hi == old.hi else hi,
            both.multiple,
            both.axes,
        ),
        t.shape,
    )
