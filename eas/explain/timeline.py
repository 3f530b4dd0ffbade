"""The memory plan as a picture: which buffer lives from which kernel to which, and how much there is at each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eas.explain.svg import element, line, nbytes, rect, svg, text, title

_LEFT, _ROW, _TOP, _STEP_MIN, _WIDTH = 16.0, 26.0, 96.0, 44.0, 900.0


class Span(NamedTuple):
    """A buffer from the step that writes it to the last one that reads it; it may lie where another one was."""

    id: int
    name: str
    nbytes: int
    first: int
    last: int
    reused_from: int | None = None


def live_nbytes(spans: Sequence[Span], steps: int) -> list[int]:
    """Bytes of the plan that are alive while each step runs."""
    return [sum(s.nbytes for s in spans if s.first <= i <= s.last) for i in range(steps)]


def lanes(spans: Sequence[Span]) -> dict[int, int]:
    """The row of each buffer: that of the memory which it takes over, else the next."""
    found: dict[int, int] = {}
    for span in spans:
        taken = found.get(span.reused_from) if span.reused_from is not None else None
        found[span.id] = len(set(found.values())) if taken is None else taken
    return found


def timeline(spans: Sequence[Span], kernels: Sequence[str]) -> str:
    """Time to the right, one row per piece of memory, above them how much is alive."""
    steps = len(kernels)
    step = max(_STEP_MIN, (_WIDTH - 2 * _LEFT) / max(steps, 1))
    rows, live = lanes(spans), live_nbytes(spans, steps)
    width, height = 2 * _LEFT + step * steps, _TOP + _ROW * (len(set(rows.values())) or 1) + 30
    most = max(live, default=0) or 1
    parts = []
    for i in range(steps + 1):
        parts.append(line(_LEFT + i * step, 20, _LEFT + i * step, height - 24, class_="grid"))
    for i, amount in enumerate(live):
        tall = 56 * amount / most
        told = title(f"while {kernels[i]} runs: {nbytes(amount)}")
        parts.append(rect(_LEFT + i * step + 1, _TOP - 16 - tall, step - 2, tall, told, class_="under live"))
        parts.append(text(_LEFT + (i + 0.5) * step, height - 8, i + 1, text_anchor="middle"))
    parts.append(text(_LEFT, 14, f"at most {nbytes(most if live else 0)} alive at once", class_="ink"))
    for span in spans:
        left, right = _LEFT + span.first * step + 2, _LEFT + min(span.last + 1, steps) * step - 2
        top = _TOP + rows[span.id] * _ROW
        again = f", in the memory of buffer {span.reused_from}" if span.reused_from is not None else ""
        told = title(f"buffer {span.id}, {span.name}: {nbytes(span.nbytes)}, kernels {span.first + 1} to {min(span.last, steps - 1) + 1}{again}")
        room = int((right - left - 12) / 6.6)
        words = f"{span.name} · {nbytes(span.nbytes)}"
        shown = words if len(words) <= room else nbytes(span.nbytes) if room > 8 else ""
        parts.append(element("g", told + rect(left, top, right - left, _ROW - 5, rx=4, class_="buffer" + (" again" if again else "")) + text(left + 7, top + 15, shown, class_="ink")))
    return element("div", svg((width, height), "Memory plan", *parts, is_fixed=True), class_="wide")
