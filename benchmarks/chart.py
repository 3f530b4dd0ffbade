"""The chart for the docs: time of everybody relative to the best peer, one line per row."""

from __future__ import annotations

from pathlib import Path

from benchmarks.registry import Bar
from benchmarks.run import Row

MARKERS = {"lib": ".", "numpy": "o", "c": "s", "numba": "^", "torch": "D", "torch.compile": "d", "jax": "v", "tinygrad": ">", "halide": "P", "mojo": "X", "pocl": "*"}
NEAREST, FARTHEST = 0.2, 20.0  # what lies outside is drawn at the edge


def draw(rows: list[Row], path: Path, caption: str) -> None:
    """Write a PNG; rows without a peer to compare with are left out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = [r for r in rows if r.best_seconds]
    fig, ax = plt.subplots(figsize=(11, 1.6 + 0.42 * len(rows)), dpi=130)
    places = range(len(rows))
    for y, row in zip(places, rows, strict=True):
        _draw_eas(ax, y, row)
    colours = plt.get_cmap("tab10").colors
    for colour, (peer, marker) in zip(colours, MARKERS.items(), strict=False):
        points = [(min(r.ratio(peer) or 1, FARTHEST), y) for y, r in zip(places, rows, strict=True) if peer in r.timings]
        if points:
            ax.scatter(*zip(*points, strict=True), marker=marker, color=colour, s=38, label=peer, zorder=3, alpha=0.85)
    ax.axvline(1.0, color="black", linewidth=0.8, zorder=1)
    ax.set_xscale("log")
    ax.set_xlim(NEAREST, FARTHEST * 1.1)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_xticks([0.25, 0.5, 1, 2, 5, 10, 20], ["0.25x", "0.5x", "1x", "2x", "5x", "10x", "20x+"])
    ax.minorticks_off()
    ax.set_yticks(list(places), [r.workload.title for r in rows])
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.3)
    ax.set_xlabel("time relative to the best peer (shorter is better); bar: eas (grey: measured on a busy machine), | where it must end")
    ax.set_title(caption, fontsize=9, loc="left")
    ax.legend(ncols=len(MARKERS) + 1, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -1.0 / (1.6 + 0.42 * len(rows))))
    fig.savefig(path, bbox_inches="tight")
    plt.close(fig)


def _draw_eas(ax, y, row: Row) -> None:
    limit = _limit(row.workload.bar, row.best_seconds)
    if "eas" in row.timings:
        colour = {"PASS": "#4c9f70", "FAIL": "#d1605e"}.get(row.verdict, "#999999")  # grey: unclear
        ratio = row.ratio("eas")
        ax.barh(y, min(max(ratio, NEAREST * 1.02), FARTHEST), height=0.62, color=colour, alpha=0.75, zorder=2)
        ax.text(NEAREST * 1.04, y, f"{ratio:.2f}x", va="center", fontsize=8, color="white", zorder=4)
    if limit and limit < FARTHEST:
        ax.plot([limit, limit], [y - 0.38, y + 0.38], color="black", linewidth=2, zorder=2.5)


def _limit(bar: Bar, best: float) -> float | None:
    return bar.ratio if bar.ratio is not None else bar.seconds / best if bar.seconds else None
