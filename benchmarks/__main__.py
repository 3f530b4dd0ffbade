"""The command line: checks, times, prints, and writes JSON and a chart."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from benchmarks import peers


def main() -> None:
    options = parse()
    peers.use_threads(options.threads)  # before NumPy and the peers are imported

    from benchmarks.machine import describe, measure_limits
    from benchmarks.measure import FULL, QUICK
    from benchmarks.registry import workloads
    from benchmarks.report import details, summary
    from benchmarks.run import run

    rows = workloads(options.rows)
    if options.list:
        print("\n".join(w.title for w in rows))
        return
    budget = QUICK if options.quick else FULL
    if options.seconds:
        budget = replace(budget, seconds=options.seconds)
    present = [p for p in options.peers if _takes_part(p, options.allow_interp)]
    if options.sweeps:
        from benchmarks.sweeps import run_sweeps

        print(run_sweeps(budget, options.threads))
        return
    if options.launch_cost:
        from benchmarks.launch_cost import main as run_launch_cost

        run_launch_cost()
        return
    if options.compile:
        from benchmarks.compile_times import run_compile_times

        run_compile_times(options.compile, options.backend, options.rows or ())
        return
    if options.argmax:
        from benchmarks.argmax import run_argmax

        run_argmax()
        return
    if options.ablation or options.without:
        from benchmarks.ablation import optional_steps, run_ablation

        run_ablation(rows, options.without or optional_steps(), budget)
        return
    limits = measure_limits(budget, options.threads)
    machine = describe(options.threads, limits)
    if limits:
        print(f"{machine['chip']}, {options.threads} threads: {limits.gbytes_per_s:.1f} GB/s (STREAM triad), {limits.gflops:.1f} GFLOP/s (FMA), probe: {limits.source}\n")
    done = []
    for w in rows:
        done.append(run(w, present, budget))
        print(details(done[-1], limits) + "\n", flush=True)
    print(summary(done, limits))
    if options.json:
        report = {"machine": machine, "rows": [r.as_json(limits) for r in done]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.png:
        from benchmarks.chart import draw

        draw(done, options.png, f"{machine['chip']}, {options.threads} threads, {machine['os']}, commit {machine['commit']}")


def parse() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [n.strip() for n in text.split(",") if n.strip()]

    def peer_names(text: str) -> list[str]:
        asked = names(text)
        unknown = [p for p in asked if p.removeprefix("+") not in peers.PACKAGES]
        if unknown:
            raise argparse.ArgumentTypeError(f"no peer {', '.join(unknown)}; there are {', '.join(peers.PACKAGES)}")
        extra = [p.removeprefix("+") for p in asked if p.startswith("+")]
        return [*peers.DEFAULT, *extra] if extra else asked

    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=names, help="comma list of names (softmax) or beginnings of titles ('matmul 512')")
    parser.add_argument("--peers", type=peer_names, default=peers.DEFAULT, help=f"comma list of {', '.join(peers.PACKAGES)}; '+torch.compile' adds to the default")
    parser.add_argument("--threads", type=int, default=2, help="cores and threads for everybody (2)")
    parser.add_argument("--json", type=Path, help="write all numbers and the machine")
    parser.add_argument("--png", type=Path, help="write a chart of the ratios")
    parser.add_argument("--quick", action="store_true", help="few samples: for a look, not for a claim")
    parser.add_argument("--seconds", type=float, help="longest time to wait for quiet samples of one row; more on a busy machine")
    parser.add_argument("--allow-interp", action="store_true", help="time eas even where it is only the interpreter")
    parser.add_argument("--sweeps", action="store_true", help="eas alone: block sizes, tiles and threads instead of peers")
    parser.add_argument("--argmax", action="store_true", help="places of the extremes of rows of every dtype and many lengths, beside NumPy and C")
    parser.add_argument("--compile", type=int, nargs="?", const=250, metavar="N", help="compile times of long kernels at N (250) and 4N statements, and their ratio")
    parser.add_argument("--backend", default="cpu", help="with --compile: cpu, sim or interp (cpu)")
    parser.add_argument("--launch-cost", action="store_true", help="host time of launches one by one and as a captured graph, on the backend of EAS_BACKEND")
    parser.add_argument("--without", type=names, metavar="STEPS", help="steps of the CPU schedule: rows with and without each of them")
    parser.add_argument("--ablation", action="store_true", help="the same for every optional step, with a table of the rows that each one moves")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    return parser.parse_args()


def _takes_part(peer: str, allow_interp: bool) -> bool:
    reason = peers.why_missing(peer, allow_interp)
    if reason:
        print(f"without {peer}: {reason}")
    return reason is None


if __name__ == "__main__":
    main()
