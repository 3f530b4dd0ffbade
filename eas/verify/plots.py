"""Plots as SVG text without scripts or fonts of others: lines over numbers, bars over names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from eas.verify.events import Point

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 58
COLORS = ("#2f6fdb", "#d9822b", "#3a9d5d", "#b0489c", "#8a6d3b", "#5f6b7a")
WIDE = 100.0  # numbers further apart than this have a logarithmic axis


def plot(title: str, points: Sequence[Point]) -> str:
    """A figure: bars if an x is a name, else lines."""
    names = list(dict.fromkeys(p.series for p in points))
    colors = {name: COLORS[k % len(COLORS)] for k, name in enumerate(names)}
    axis = _Axis([p.y for p in points], HEIGHT - BOTTOM, TOP, starts_at_zero=True)
    draw = _bars if any(isinstance(p.x, str) for p in points) else _lines
    parts = [_text(LEFT, 20, title, "title"), *_grid(axis), *draw(points, colors, axis), *_legend(colors)]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


class _Axis:
    """Numbers to places; logarithmic if they are far apart."""

    def __init__(self, numbers: Sequence[float], low_place: float, high_place: float, *, starts_at_zero: bool) -> None:
        positive = [x for x in numbers if x > 0]
        self.is_log = bool(positive) and max(positive) / min(positive) > WIDE
        if self.is_log:
            self.low, self.high = 10 ** math.floor(math.log10(min(positive))), max(positive)
        else:
            self.low, self.high = 0.0 if starts_at_zero else min(numbers), max(numbers)
        if self.high <= self.low:
            self.high = self.low + 1
        self._low_place, self._high_place = low_place, high_place

    def place(self, x: float) -> float:
        if self.is_log:
            share = math.log(max(x, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (x - self.low) / (self.high - self.low)
        return self._low_place + share * (self._high_place - self._low_place)

    def ticks(self) -> list[float]:
        """About five round numbers."""
        if self.is_log:
            decades = range(round(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            return [10.0**k for k in decades][:: 1 + len(decades) // 6]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(k for k in (1, 2, 5, 10) if (self.high - self.low) / (step * k) <= 5)
        first = math.ceil(self.low / step)
        return [k * step for k in range(first, math.floor(self.high / step) + 1)]


def short(x: float) -> str:
    """A number in a few characters."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= limit:
            return f"{x / limit:.3g}{unit}"
    return f"{x:.3g}"


def _text(x: float, y: float, text: str, css: str, anchor: str = "start", turn: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}"{turn}>{escape(text)}</text>'


def _grid(axis: _Axis) -> list[str]:
    parts = []
    for tick in axis.ticks():
        y = axis.place(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(_text(LEFT - 6, y + 4, short(tick), "tick", "end"))
    return parts


def _legend(colors: dict[str, str]) -> list[str]:
    parts, x = [], float(LEFT)
    for name, color in colors.items():
        parts.append(f'<rect x="{x:.1f}" y="{HEIGHT - 16}" width="10" height="10" fill="{color}"/>')
        parts.append(_text(x + 14, HEIGHT - 7, name, "tick"))
        x += 28 + 6.5 * len(name)
    return parts


def _lines(points: Sequence[Point], colors: dict[str, str], axis: _Axis) -> list[str]:
    across = _Axis([float(p.x) for p in points], LEFT + 8, WIDTH - RIGHT - 8, starts_at_zero=False)
    parts = [_text(across.place(tick), HEIGHT - BOTTOM + 16, short(tick), "tick", "middle") for tick in across.ticks()]
    for name, color in colors.items():
        mine = sorted((float(p.x), p.y) for p in points if p.series == name)
        path = " ".join(f"{across.place(x):.1f},{axis.place(y):.1f}" for x, y in mine)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, y in mine:
            parts.append(f'<circle cx="{across.place(x):.1f}" cy="{axis.place(y):.1f}" r="3" fill="{color}"><title>{escape(name)}: {short(y)} at {short(x)}</title></circle>')
    return parts


def _bars(points: Sequence[Point], colors: dict[str, str], axis: _Axis) -> list[str]:
    places = list(dict.fromkeys(str(p.x) for p in points))
    room = (WIDTH - LEFT - RIGHT) / len(places)
    width = min(34.0, 0.8 * room / len(colors))
    base, parts = HEIGHT - BOTTOM, []
    for k, place in enumerate(places):
        middle = LEFT + room * (k + 0.5)
        turn = f' transform="rotate(-20 {middle:.1f} {base + 16})"' if len(places) > 6 else ""
        parts.append(_text(middle, base + 16, place, "tick", "end" if turn else "middle", turn))
        for n, (name, color) in enumerate(colors.items()):
            for p in points:
                if str(p.x) != place or p.series != name:
                    continue
                x, y = middle + (n - len(colors) / 2) * width, axis.place(p.y)
                parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" height="{max(base - y, 0):.1f}" fill="{color}"><title>{escape(name)}, {escape(place)}: {short(p.y)}</title></rect>')
    return parts


def timeline(rows: Sequence[tuple[str, float, str]]) -> str:
    """One bar per (name, seconds, status), one after the other."""
    total = sum(seconds for _, seconds, _ in rows) or 1.0
    line, name_width = 20, 330
    height, width = line * len(rows) + 8, 860
    parts, start = [], 0.0
    for k, (name, seconds, status) in enumerate(rows):
        y = 4 + k * line
        x, length = name_width + start / total * (width - name_width - 60), max(2.0, seconds / total * (width - name_width - 60))
        parts.append(_text(name_width - 8, y + 14, name, "tick", "end"))
        parts.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{length:.1f}" height="{line - 6}" class="{status}"><title>{escape(name)}: {seconds:.1f} s, {status}</title></rect>')
        parts.append(_text(x + length + 5, y + 14, f"{seconds:.1f} s", "tick"))
        start += seconds
    return f'<svg viewBox="0 0 {width} {height}" class="timeline" role="img" aria-label="time of the stages">{"".join(parts)}</svg>'
