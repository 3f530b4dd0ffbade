"""What the reader sees: the participants of each row, then one table of eas against the bars."""

from __future__ import annotations

from benchmarks.machine import Limits
from benchmarks.registry import Workload, show_time
from benchmarks.run import Row


def rate(w: Workload, seconds: float) -> str:
    if w.flops > 4 * w.nbytes:
        return f"{w.flops / seconds / 1e9:.1f} GFLOP/s"
    return f"{w.nbytes / seconds / 1e9:.1f} GB/s" if w.nbytes else ""


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def details(row: Row, limits: Limits | None) -> str:
    """All participants of a row, the fastest first."""
    w = row.workload
    limit = limits.seconds(w) if limits else None
    allocates = {e.peer for e in w.entries if e.allocates}
    lines = [f"{w.title}   bar {w.bar}" + (f"   limit {show_time(limit)}" if limit else "")]
    for peer, t in sorted(row.timings.items(), key=lambda item: item[1].best):
        numbers = t.as_json()
        ratio = row.ratio(peer)
        notes = [n for n, holds in (("allocates its output", peer in allocates), ("busy machine: time of its busiest thread", t.is_contended)) if holds]
        lines.append(
            f"  {peer:14}{show_time(t.best):>9}  median {show_time(t.median):>8}"
            f"  p10-p90 {show_time(numbers['p10'])} - {show_time(numbers['p90'])}".ljust(70)
            + f"{rate(w, t.best):>15}"
            + (f"  {ratio:5.2f}x of best" if ratio else " " * 15)
            + (f"  {t.best / limit:5.2f}x of limit" if limit else "")
            + (f"  ({', '.join(notes)})" if notes else "")
        )
    lines += [f"  {peer:14}{reason}" for peer, reason in row.failures.items()]
    return "\n".join(lines)


def summary(rows: list[Row], limits: Limits | None) -> str:
    """One line per row: eas, the best peer, both against the machine, the bar."""
    head = f"{'row':32}{'eas':>10}{'best peer':>22}{'rate':>16}{'eas/peer':>10}{'median':>9}{'eas/limit':>11}{'peer/limit':>12}{'bar':>10}  verdict"
    lines = [head, "-" * len(head)]
    for row in rows:
        w, eas, best = row.workload, row.timings.get("eas"), row.best_peer
        limit = limits.seconds(w) if limits else None
        peer = row.timings[best] if best else None
        cells = [
            (10, show_time(eas.best) if eas else "-"),
            (22, f"{best} {show_time(peer.best)}" if peer else "-"),
            (16, rate(w, peer.best) if peer else ""),
            (10, times(eas.best / peer.best if eas and peer else None)),
            (9, times(eas.median / peer.median if eas and peer else None)),
            (11, times(eas.best / limit if eas and limit else None)),
            (12, times(peer.best / limit if peer and limit else None)),
            (10, str(w.bar)),
        ]
        lines.append(f"{w.title:32}" + "".join(text.rjust(n) for n, text in cells) + f"  {row.verdict}")
    if any(row.verdict.endswith("?") for row in rows):
        lines.append("?: too few samples ran without waiting for a core, the times are processor time of the busiest thread; run it again on a quiet machine")
    return "\n".join(lines)
