"""The roofline of a machine with what was measured under it, as a picture and as words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from eas.explain.machine import Roof
from eas.explain.svg import element, line, number, path, si, svg, text, title

_WIDTH, _HEIGHT = 640.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 20.0, 30.0, 46.0


class Measured(NamedTuple):
    """One kernel: what it moved and computed, and in which time; None: nobody knows."""

    name: str
    seconds: float
    nbytes: int | None
    flops: int | None
    label: str = ""
    """Beside the dot; the name where it is empty."""

    @property
    def rate(self) -> float:
        """Float operations per second."""
        return (self.flops or 0) / self.seconds

    @property
    def is_dot(self) -> bool:
        """Whether it has a place under the roof."""
        return bool(self.nbytes) and bool(self.flops) and self.seconds > 0

    @property
    def intensity(self) -> float:
        """Float operations per byte."""
        return (self.flops or 0) / (self.nbytes or 1)


def shares(roof: Roof, m: Measured) -> list[tuple[str, float, float]]:
    """(what, rate per second, share of what the machine can do) of what is known."""
    found = []
    if m.nbytes:
        found.append(("B/s", m.nbytes / m.seconds, m.nbytes / m.seconds / roof.bytes_per_second))
    if m.flops:
        found.append(("FLOP/s", m.flops / m.seconds, m.flops / m.seconds / roof.flops_per_second))
    return found


def verdict(roof: Roof, m: Measured) -> str:
    """One sentence: what limits this kernel, and how near to that it is."""
    if not m.nbytes:
        return "The IR does not tell how many bytes this kernel moves, so it has no place under the roof."
    bound = min(roof.flops_per_second, roof.bytes_per_second * m.intensity) if m.flops else 0.0
    if not m.flops:
        share = m.nbytes / m.seconds / roof.bytes_per_second
        told = "It computes no floats" if m.flops == 0 else "The IR does not tell how many float operations it does"
        return f"{told}: memory is its limit, and it moves {share:.0%} of what a plain copy does."
    limit = "memory" if roof.bytes_per_second * m.intensity < roof.flops_per_second else "arithmetic"
    share = m.flops / m.seconds / bound
    cached = " More than 100 %: its data stayed in the caches." if share > 1 else ""
    return f"At {m.intensity:.3g} operations per byte its limit is {limit}; it reaches {share:.0%} of the roof there.{cached}"


def chart(roof: Roof, measured: Sequence[Measured]) -> str:
    """Float operations per second over float operations per byte, both logarithmic."""
    dots = [m for m in measured if m.is_dot]
    axes = _Axes(roof, dots)
    ridge = roof.flops_per_second / roof.bytes_per_second
    corner = [(axes.low, roof.bytes_per_second * axes.low), (ridge, roof.flops_per_second), (axes.high, roof.flops_per_second)]
    points = [axes.point(x, y) for x, y in corner]
    floor = axes.point(axes.high, axes.bottom)[1]
    under = element("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in [*points, (points[-1][0], floor), (points[0][0], floor)]) + "Z", class_="under")
    x, y = axes.point(ridge, roof.flops_per_second)
    slope_x, slope_y = axes.point(math.sqrt(axes.low * ridge), roof.bytes_per_second * math.sqrt(axes.low * ridge))
    words = [
        text(min(x + 8, _WIDTH - 150), y - 7, si(roof.flops_per_second, "FLOP/s"), class_="ink"),
        text(slope_x - 8, slope_y - 6, si(roof.bytes_per_second, "B/s"), class_="ink", text_anchor="end"),
        text(_LEFT + (_WIDTH - _LEFT - _RIGHT) / 2, _HEIGHT - 8, "float operations per byte", text_anchor="middle"),
        text(_LEFT - 8, 14, "FLOP/s", text_anchor="end"),
    ]
    marks = [axes.dot(roof, m) for m in dots]
    return svg((_WIDTH, _HEIGHT), f"Roofline of {roof.about}", axes.grid(), under, path(points, class_="roof"), *words, *marks)


class _Axes:
    """Two logarithmic axes that hold the roof and every dot."""

    def __init__(self, roof: Roof, dots: Sequence[Measured]) -> None:
        ridge = roof.flops_per_second / roof.bytes_per_second
        intensities = [m.intensity for m in dots]
        self.low = 2.0 ** math.floor(math.log2(min([ridge / 64, *intensities]) / 2))
        self.high = 2.0 ** math.ceil(math.log2(max([ridge * 8, *intensities]) * 2))
        rates = [m.rate for m in dots]
        self.bottom = 10.0 ** math.floor(math.log10(min([roof.bytes_per_second * self.low, *rates]) / 2))
        self.top = 10.0 ** math.ceil(math.log10(max([roof.flops_per_second, *rates]) * 1.5))

    def point(self, intensity: float, rate: float) -> tuple[float, float]:
        across = math.log(intensity / self.low) / math.log(self.high / self.low)
        up = math.log(rate / self.bottom) / math.log(self.top / self.bottom)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> str:
        parts = []
        doublings = round(math.log2(self.high / self.low))
        for i in range(0, doublings + 1, max(1, doublings // 8)):
            value = self.low * 2.0**i
            x, y = self.point(value, self.bottom)
            parts.append(line(x, _TOP, x, y, class_="grid") + text(x, y + 16, f"{value:g}" if value >= 1 else f"1/{1 / value:g}", text_anchor="middle"))
        decade = self.bottom
        while decade <= self.top * 1.01:
            x, y = self.point(self.low, decade)
            parts.append(line(x, y, _WIDTH - _RIGHT, y, class_="grid") + text(x - 8, y + 4, si(decade), text_anchor="end"))
            decade *= 10
        return "".join(parts)

    def dot(self, roof: Roof, m: Measured) -> str:
        x, y = self.point(m.intensity, m.rate)
        roof_y = self.point(m.intensity, min(roof.flops_per_second, roof.bytes_per_second * m.intensity))[1]
        told = title(f"{m.name}: {si(m.rate, 'FLOP/s')} at {m.intensity:.3g} operations per byte")
        circle = element("circle", told, cx=float(x), cy=float(y), r=6, class_="dot")
        name = m.label or m.name
        shown = name if len(name) <= 24 else f"{name[:23]}…"
        is_right = x > _WIDTH * 0.7
        label = text(x - 10 if is_right else x + 10, y + 4, shown, class_="ink", text_anchor="end" if is_right else "start")
        return line(x, y, x, roof_y, class_="drop") + circle + label
