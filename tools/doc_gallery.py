"""docs/gallery.md: the kernels that eas ships, and how fast they were in the run of docs/benchmarks.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What shows a kernel at work -> the row of the benchmarks that measures it.
ROWS = {
    "add": "add 2^24", "softmax": "softmax 4096x1024", "layer_norm": "layer_norm 4096x1024", "matmul": "matmul 1024x1024x1024",
    "flash_attention": "attention h8 N1024 D64", "histogram": "histogram i32 2^24 -> 256", "prefix_sum": "cumsum 4096x1024", "gpt": "gpt_step 4 layers, 256 wide, vocabulary 512, batch 8x128",
}  # fmt: skip


def make_gallery() -> str:
    """The page."""
    parts = [
        "# Gallery\n\nThe kernels of `examples/` (in an installed `eas`: `eas.examples`), each a program of its own: `python -m examples.softmax`. Times are those of "
        "[benchmarks.md](benchmarks.md), on two cores of a shared machine, beside the best of NumPy, torch, JAX, Numba, Halide, Mojo, PoCL and C.\n\n"
        "| kernel | shows | eas, ms | best peer, ms |\n|---|---|---|---|\n"
    ]
    times = _times()
    for path in _examples():
        ours, peer = times.get(ROWS.get(path.stem, ""), ("", ""))
        parts.append(f"| [{path.stem}](../examples/{path.name}) | {_summary(path)} | {ours} | {peer} |\n")
    for path in _examples():
        parts.append(f"\n## {path.stem}\n\n{_summary(path)}\n" + "".join(f"\n<!-- not run: a part of examples/{path.name} -->\n```python\n{source}\n```\n" for source in _kernels(path)))
    return "".join(parts)


def _examples() -> list[Path]:
    return [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in ("__init__", "command_line")]


def _times() -> dict[str, tuple[str, str]]:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    return {name: (ours, peer) for name, ours, peer in re.findall(r"^\| ([^|]+?) \| ([\d.]+) \| (\w+ [\d.]+) \|", text, re.M)}


def _summary(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]


def _kernels(path: Path) -> list[str]:
    """The source of every kernel of a file, decorators included."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any("eas." in ast.unparse(d) for d in node.decorator_list):
            first = min(d.lineno for d in node.decorator_list)
            found.append("\n".join(lines[first - 1 : node.end_lineno]))
    return found
