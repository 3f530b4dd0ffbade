"""Asynchronous launches over threads and streams, in any order that their memory allows, against the same launches one by one.

    EAS_METAL=software EAS_BACKEND=mps python tests/stress/stress_streams.py --launches 10000 --seed 3
    EAS_BACKEND=cpu python tests/stress/stress_streams.py

On the software Metal EAS_FAKE_SEED (the same as --seed) chooses the order of commands that nothing orders. `--drops N` leaves out one
barrier, fence or event per round, and fails unless the results of a round differ.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
from typing import Any

import numpy as np

import eas
from eas import mk
from eas.runtime import get_runtime

N_THREADS, N_STREAMS, N_ARRAYS, LENGTH = 4, 3, 6, 192


@eas.kernel
def mix(a, b, c, k, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(c, i, i < n) * 7 + mk.load(a, i, i < n) * 5 + mk.load(b, i, i < n) * 3 + k, i < n)  # what is wrong once stays wrong


class Play:
    """Arrays that all threads write, and some of each thread's own; what was launched on them, in order."""

    def __init__(self, seed: int) -> None:
        device = "mps" if get_runtime().name == "mps" else "cpu"
        values = np.random.default_rng(seed).integers(0, 1000, ((N_THREADS + 1) * N_ARRAYS, LENGTH)).astype(np.int32)
        self.arrays = [eas.tensor(row.copy(), device=device) for row in values]
        self.want = values.copy()
        self.streams = [eas.Stream() for _ in range(N_STREAMS)]
        self.order = threading.Lock()
        self.done: list[list[tuple[int, ...]]] = [[] for _ in range(N_THREADS + 1)]
        self.problems: list[BaseException] = []

    def work(self, thread: int, n: int, seed: int) -> None:
        """Half of the launches are on memory of this thread only; the others are made in an order that is written down."""
        rng = random.Random(seed * 1000 + thread)
        event = eas.Event()
        try:
            for _ in range(n):
                stream = rng.choice(self.streams)
                if rng.random() < 0.5:
                    self.launch(rng, stream, N_ARRAYS * (thread + 1), self.done[thread])
                else:
                    with self.order:
                        self.launch(rng, stream, 0, self.done[-1])
                if rng.random() < 0.02:
                    stream.record(event)
                    rng.choice(self.streams).wait(event)
                if rng.random() < 0.002:
                    stream.synchronize()
        except BaseException as error:
            self.problems.append(error)

    def launch(self, rng: random.Random, stream: eas.Stream, first: int, done: list[tuple[int, ...]]) -> None:
        """One launch on parts of three arrays; parts of one array may overlap, but not its own argument."""
        (a, b, c), n = (first + rng.randrange(N_ARRAYS) for _ in range(3)), rng.choice((64, 96))
        at = [rng.randrange(0, LENGTH - n + 1, 16) for _ in range(3)]
        step = (a, at[0], b, at[1], c, at[2], rng.randrange(100), n)
        if c in (a, b):
            step = (a, 0, b, 0, c, 0, step[6], n)
        done.append(step)
        x, y, z = (self.arrays[step[i]][step[i + 1] : step[i + 1] + n] for i in (0, 2, 4))
        mix[1](x, y, z, step[6], n, BLOCK=128, _sync=False, _stream=stream)

    def expect(self) -> None:
        for a, i, b, j, c, k, number, n in (step for steps in self.done for step in steps):
            self.want[c, k : k + n] = self.want[c, k : k + n] * 7 + self.want[a, i : i + n] * 5 + self.want[b, j : j + n] * 3 + number

    def differences(self) -> int:
        return sum(not np.array_equal(got.numpy(), want) for got, want in zip(self.arrays, self.want, strict=True))


def pulse(hooks: Any, is_over: threading.Event) -> None:
    """Let the GPU stand still every other moment, so that commands come together and many orders are possible."""
    while not is_over.wait(0.004):
        hooks.hold(True)
        is_over.wait(0.008)
        hooks.hold(False)


def play_once(launches: int, seed: int, drop: int = 0) -> int:
    """How many arrays differ in the end."""
    hooks, play, is_over = fake_hooks(), Play(seed), threading.Event()
    mix[1](play.arrays[0], play.arrays[1], play.arrays[2], 0, 0, BLOCK=128)  # compiled before anybody is in a hurry
    if hooks is not None:
        hooks.drop_order(drop)
        threading.Thread(target=pulse, args=(hooks, is_over), daemon=True).start()
    threads = [threading.Thread(target=play.work, args=(i, launches // N_THREADS, seed)) for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eas.synchronize()
    is_over.set()
    if play.problems:
        raise play.problems[0]
    play.expect()
    found, orders = play.differences(), 0 if hooks is None else hooks.orders()
    dropped = f", number {drop} left out" if drop else ""
    print(f"seed {seed}: {launches} launches, {N_THREADS} threads, {N_STREAMS} streams, {orders} barriers and waits{dropped}: {found} arrays differ", flush=True)
    return found


def fake_hooks() -> Any:
    """Of the software Metal, if that is what launches run on."""
    runtime = get_runtime()
    return runtime.extension().hooks if runtime.name == "mps" else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drops", type=int, default=0, help="rounds, each with another barrier or wait left out, until one shows")
    options = parser.parse_args()
    os.environ.setdefault("EAS_FAKE_SEED", str(options.seed))
    if not options.drops:
        found = play_once(options.launches, options.seed)
    else:  # many a barrier is implied by others, and one between commands that never meet is not missed
        rng = random.Random(options.seed)
        found = 0 if any(play_once(options.launches, options.seed, rng.randrange(1, options.launches)) for _ in range(options.drops)) else 1
    problem = None if fake_hooks() is None else fake_hooks().problem()
    if problem is not None:
        print(problem, file=sys.stderr)
    return 1 if found or problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
