"""Old against new: `git worktree add /tmp/old <commit>`, then `python tools/old_new.py /tmp/old` from the tree of today.

A process for each tree waits for the name of a row and times it, in turns and in random order; a second process of the new
tree shows what the machine makes of the same code. Minima of many rounds; `EAS_NUM_THREADS=1` for one thread.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
SECONDS, LEAST = 2e-3, 4  # of a turn: as long, and as many calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", default="", help="words of which a row has one")
    args = parser.parse_args()
    children = {"old": _Child(args.old, "old"), "new": _Child(HERE.parent.parent, "new"), "again": _Child(HERE.parent.parent, "new")}
    words = args.rows.split(",")
    names = [n for n in children["old"].names if n in children["new"].names and any(w in n for w in words)]
    best = dict.fromkeys(((n, c) for n in names for c in children), float("inf"))
    for _ in range(args.rounds):
        for name in names:
            for child in random.sample(list(children), len(children)):
                best[name, child] = min(best[name, child], children[child].time(name))
    print(f"{'':28}{'old':>10}{'new':>10} us   new/old   new/new")
    for name in names:
        old, new, again = (best[name, child] for child in children)
        print(f"{name:28}{old * 1e6:10.1f}{new * 1e6:10.1f} {min(new, again) / old:12.2f}{again / new:10.2f}")


class _Child:
    """A process that imports `eas` from one tree."""

    def __init__(self, tree: Path, cache: str) -> None:
        folder = Path(os.environ.get("EAS_CACHE_DIR") or Path.home() / ".cache" / "eas")
        env = {**os.environ, "PYTHONPATH": str(tree), "EAS_CACHE_DIR": f"{folder}-{cache}"}
        command = [sys.executable, str(HERE), "--child"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=tree)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.names = self._from.readline().strip().split(" | ")

    def time(self, name: str) -> float:
        """Seconds of the fastest call of a turn."""
        self._to.write(name + "\n")
        self._to.flush()
        return float(self._from.readline())


def child() -> None:
    calls = rows()
    for call in calls.values():
        for _ in range(3):
            call()
    print(" | ".join(calls), flush=True)
    for line in sys.stdin:
        call = calls[line.strip()]
        call()
        best, count, start = float("inf"), 0, time.perf_counter()
        while count < LEAST or time.perf_counter() - start < SECONDS:
            before = time.perf_counter()
            call()
            best, count = min(best, time.perf_counter() - before), count + 1
        print(best, flush=True)


def rows() -> dict[str, Callable[[], object]]:
    """What is timed; only calls that an old tree has, too."""
    import eas
    from eas import lib, mk

    @eas.kernel
    def add(x, y, z, n, BLOCK: mk.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(z, i, mk.load(x, i, i < n) + mk.load(y, i, i < n), i < n)

    @eas.kernel
    def sum_rows(x, y, n, BLOCK: mk.constexpr):
        row, c = mk.program_id(0), mk.arange(0, BLOCK)
        mk.store(y + row, mk.sum(mk.cast(mk.load(x + row * n + c, mask=c < n, other=0), y.dtype)))

    @eas.kernel
    def turn(x, y, m, n, T: mk.constexpr):
        r, c = mk.program_id(0) * T + mk.arange(0, T), mk.program_id(1) * T + mk.arange(0, T)
        mk.store(y + c[:, None] * m + r[None, :], mk.trans(mk.load(x + r[:, None] * n + c[None, :])))

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4096, 1024), dtype=np.float32)
    out, flat = np.empty_like(x), x.reshape(-1)
    w, b = rng.standard_normal((2, 1024), dtype=np.float32)
    few, few_out = x.reshape(-1)[: 1 << 18].reshape(512, 512).copy(), np.empty((512, 512), np.float32)
    square, square_out = flat.reshape(2048, 2048), np.empty((2048, 2048), np.float32)
    heads = [rng.standard_normal((1, 8, 512, 64), dtype=np.float32) for _ in range(3)]
    narrow = {kind: rng.integers(0, 9, (4000, 67)).astype(kind) for kind in ("uint8", "float16")}
    sums = {"uint8": np.empty(4000, np.int32), "float16": np.empty(4000, np.float32), "float32": np.empty(4096, np.float32)}
    return {
        "add 2^22": lambda: add[4096,](flat, y.reshape(-1), out.reshape(-1), flat.size, BLOCK=1024),
        "gelu 2^22": lambda: lib.gelu(flat, out=out.reshape(-1)),
        "softmax 4096x1024": lambda: lib.softmax(x, out),
        "layer norm 4096x1024": lambda: lib.layer_norm(x, w, b, 1e-5, out),
        "layer norm 512x512": lambda: lib.layer_norm(few, w[:512], b[:512], 1e-5, few_out),
        "rms norm 4096x1024": lambda: lib.rms_norm(x, w, 1e-5, out),
        "rms norm 512x512": lambda: lib.rms_norm(few, w[:512], 1e-5, few_out),
        "cumsum 4096x1024": lambda: lib.cumsum(x, out),
        "sum 2^22": lambda: lib.sum(flat),
        "matmul 512": lambda: lib.matmul(few, few, few_out),
        "transpose 2048": lambda: lib.transpose(square, square_out),
        "user transpose 2048 by 16": lambda: turn[128, 128](square, square_out, 2048, 2048, T=16),
        "attention h8 N512 D64": lambda: lib.attention(*heads),
        "causal attention": lambda: lib.attention(*heads, causal=True),
        "row sums f32 4096x1024": lambda: sum_rows[4096,](x, sums["float32"], 1024, BLOCK=1024),
        **{f"row sums {k} 4000x67": lambda k=k: sum_rows[4000,](narrow[k], sums[k], 67, BLOCK=128) for k in narrow},
        "argmax 4096x1024": lambda: lib.argmax(x),
        "top 8 of 512x512": lambda: lib.topk(few, 8),
        "add 4096": lambda: add[4,](flat[:4096], flat[:4096], out.reshape(-1)[:4096], 4096, BLOCK=1024),
    }


if __name__ == "__main__":
    child() if sys.argv[1:] == ["--child"] else main()
