"""The pictures of the README as SVG: how a kernel gets to its targets, and its speed from docs/benchmarks.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INK, SOFT, LINE, ACCENT, PEER = "#1f2937", "#f3f4f6", "#9ca3af", "#2563eb", "#9ca3af"
ROWS = ("add 2^24", "softmax 4096x1024", "layer_norm 4096x1024", "rms_norm 4096x1024", "sum 2^24", "matmul 1024x1024x1024", "attention h8 N1024 D64", "conv2d 3x3 n8 c64 56x56 o64", "transpose 4096x4096")
_SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="14">'


def _box(x: int, y: int, width: int, height: int, title: str, lines: Sequence[str] = (), color: str = SOFT) -> str:
    made = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{color}" stroke="{LINE}"/>']
    made.append(f'<text x="{x + 12}" y="{y + 22}" font-weight="600" fill="{INK}">{escape(title)}</text>')
    made += [f'<text x="{x + 12}" y="{y + 42 + 17 * i}" fill="{INK}" font-family="ui-monospace, monospace" font-size="12" xml:space="preserve">{escape(line)}</text>' for i, line in enumerate(lines)]
    return "".join(made)


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{LINE}" stroke-width="2" marker-end="url(#tip)" fill="none"/>'


def walk() -> str:
    """One kernel, one IR, four ways to run it."""
    head = _SVG.format(860, 290) + f'<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs><rect width="860" height="290" fill="white"/>'
    kernel = _box(16, 60, 270, 170, "a Python function", ["@eas.kernel", "def add(a, b, c, N, BLOCK):", "  i = mk.program_id(0) * BLOCK", "  i += mk.arange(0, BLOCK)", "  x = mk.load(a, i, i < N)", "  y = mk.load(b, i, i < N)", "  mk.store(c, i, x + y, i < N)"], "#eff6ff")
    ir = _box(340, 90, 170, 110, "typed block IR", ["traced, optimised,", "every instruction", "knows your line"])
    targets = [("LLVM", "any CPU, all cores"), ("Metal", "Apple GPUs"), ("software Metal", "the Metal text, checked"), ("NumPy", "the judge of all")]
    boxes = [_box(580, 14 + 68 * i, 264, 54, title, [text]) for i, (title, text) in enumerate(targets)]
    arrows = [_arrow(290, 145, 334, 145), *(_arrow(514, 145, 574, 41 + 68 * i) for i in range(4))]
    return head + kernel + ir + "".join(boxes) + "".join(arrows) + "</svg>\n"


def measured() -> list[tuple[str, float, str, float]]:
    """(row, milliseconds of eas, best peer, its milliseconds) of the table of docs/benchmarks.md."""
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    found = {name: (float(ours), peer, float(theirs)) for name, ours, peer, theirs in re.findall(r"^\| ([^|]+?) \| ([\d.]+) \| (\w+) ([\d.]+) \|", text, re.M)}
    return [(name, *found[name]) for name in ROWS]


def chart() -> str:
    """Times beside the best of NumPy, torch, JAX, Numba, Halide, Mojo, PoCL and C; shorter is better."""
    rows = measured()
    height = 70 + 44 * len(rows)
    parts = [_SVG.format(860, height), f'<rect width="860" height="{height}" fill="white"/>', f'<text x="16" y="26" font-weight="600" fill="{INK}">CPU, 2 cores: time beside the best of eight peers (shorter is better)</text>']
    for i, (name, ours, peer, theirs) in enumerate(rows):
        top, scale = 44 + 44 * i, 430 / max(ours, theirs)
        parts.append(f'<text x="16" y="{top + 22}" fill="{INK}">{escape(name)}</text>')
        for at, value, color, label in ((top, ours, ACCENT, f"eas {ours:g} ms"), (top + 18, theirs, PEER, f"{peer} {theirs:g} ms")):
            parts.append(f'<rect x="250" y="{at}" width="{value * scale:.1f}" height="16" rx="3" fill="{color}"/><text x="{258 + value * scale:.1f}" y="{at + 13}" font-size="12" fill="{INK}">{escape(label)}</text>')
    parts.append(f'<text x="16" y="{height - 10}" font-size="12" fill="{LINE}">docs/benchmarks.md has all rows, the machine and the command</text></svg>\n')
    return "".join(parts)


def pictures() -> dict[Path, str]:
    """The files and what they hold."""
    return {ROOT / "docs" / "images" / "walk.svg": walk(), ROOT / "docs" / "images" / "speed.svg": chart()}


def main() -> int:
    """Write them."""
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
