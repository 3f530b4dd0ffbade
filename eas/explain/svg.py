"""Pieces of SVG and HTML, written by hand; every text that goes in is escaped here."""

from __future__ import annotations

import html
import math
import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def esc(text: object) -> str:
    """Text that cannot leave its place: markup escaped, control characters and turns of direction shown as U+FFFD."""
    return html.escape(_CONTROL.sub("\ufffd", str(text)), quote=True)


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(tag: str, content: str = "", **attrs: object) -> str:
    """`<tag attr="...">content</tag>`; content is markup, attributes are text. `class_` is class, `stroke_width` stroke-width."""
    shown = "".join(f' {name.rstrip("_").replace("_", "-")}="{esc(_attr(value))}"' for name, value in attrs.items() if value is not None)
    return f"<{tag}{shown}>{content}</{tag}>"


def _attr(value: object) -> object:
    return number(value) if isinstance(value, float) else value


def text(x: float, y: float, words: object, **attrs: object) -> str:
    """Words at a point."""
    return element("text", esc(words), x=float(x), y=float(y), **attrs)


def line(x1: float, y1: float, x2: float, y2: float, **attrs: object) -> str:
    """A straight line."""
    return element("line", "", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attrs)


def rect(x: float, y: float, width: float, height: float, content: str = "", **attrs: object) -> str:
    """A rectangle; its content is a title."""
    return element("rect", content, x=float(x), y=float(y), width=float(max(width, 0)), height=float(height), **attrs)


def path(points: list[tuple[float, float]], **attrs: object) -> str:
    """A line through points."""
    return element("path", "", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in points), fill="none", **attrs)


def title(words: object) -> str:
    """What a reader sees who rests the pointer on the element around it."""
    return element("title", esc(words))


def svg(size: tuple[float, float], label: str, *content: str, is_fixed: bool = False) -> str:
    """A picture that says what it is to those who cannot see it; it scales with the page unless its size is fixed."""
    width, height = map(number, size)
    style = f"width:{width}px;max-width:none" if is_fixed else f"max-width:{width}px"
    return element("svg", title(label) + "".join(content), viewBox=f"0 0 {width} {height}", role="img", class_="chart", style=style)


def si(value: float, unit: str = "") -> str:
    """`1.2 M`, `3.4 k`: three digits and a prefix."""
    if value == 0 or not math.isfinite(value):
        return f"0 {unit}".rstrip() if value == 0 else f"? {unit}".rstrip()
    steps = ["p", "n", "µ", "m", "", "k", "M", "G", "T", "P"]
    place = min(max(math.floor(math.log10(abs(value)) / 3), -4), 5)
    scaled = value / 1000.0**place
    digits = f"{scaled:.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"
    return f"{digits} {steps[place + 4]}{unit}".rstrip()


def nbytes(value: float) -> str:
    """Bytes with a prefix of 1024."""
    place = 0
    while abs(value) >= 1024 and place < 4:
        value, place = value / 1024, place + 1
    return f"{value:.0f} B" if place == 0 else f"{value:.{0 if value >= 100 else 3}{'f' if value >= 100 else 'g'}} {' KMGT'[place]}iB"
