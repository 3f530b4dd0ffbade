"""Plants bugs, one at a time, and says which of them the tests notice.

    python tools/mutate.py                      # all mutants, with the tests that each names
    python tools/mutate.py --only offs --all    # those with "offs" in the name; survivors meet the whole suite
    python tools/mutate.py --list
    python tools/mutate.py --random 50 --seed 1 --map backend.json unit.json

The bugs stand in `tools/mutants.py`; random ones are planted by the rules of `tools/random_mutants.py` at lines that
tests execute, and meet tests that execute them, which `tools/line_tests.py` has written down (`--map`).
Each is planted in a copy of the tree; the tree itself is never changed.
A mutant is killed if a test fails, or if the tests crash or do not end in time. Exit status 1: fewer than 95 % are killed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools.mutants import MUTANTS, Mutant
from tools.random_mutants import LineMap, Site, random_sites

ROOT = Path(__file__).resolve().parent.parent
WANTED = 0.95  # of all mutants


def planted(mutant: Mutant, root: Path) -> str:
    """The text of the mutant's file with the bug in it."""
    text = (root / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"mutant {mutant.name!r}: its text stands {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def copied_tree(folder: Path) -> Path:
    """A copy of the files that git knows of, as they are in the working tree."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in names.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def notice(tree: Path, tests: str, jobs: int, seconds: float) -> str:
    """The first test that fails in the tree, or "" if none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-n", str(jobs), *shlex.split(tests)]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "the tests do not end"
    if run.returncode in (0, 5):  # 5: none of the tests is chosen today
        return ""
    if run.returncode < 0:
        return f"the tests crash (signal {-run.returncode})"
    if run.returncode not in (1, 2):  # 2: a test file cannot be imported
        raise SystemExit(f"pytest ended with {run.returncode}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0] if lines else run.stdout.strip().splitlines()[-1]


def judged(mutant: Mutant, tree: Path, options: argparse.Namespace) -> str:
    """What notices the mutant: the tests it names, then the rest if asked for."""
    file = tree / mutant.file
    sound = file.read_text()
    try:
        file.write_text(planted(mutant, tree))
        rebuild(tree, mutant)
        found = notice(tree, mutant.tests, options.jobs, options.seconds)
        return found or (notice(tree, "tests", options.jobs, 10 * options.seconds) if options.all else "")
    finally:
        file.write_text(sound)
        rebuild(tree, mutant)


def rebuild(tree: Path, mutant: Mutant) -> None:
    """Compile native code as it is in the tree: what runs is its text."""
    if mutant.file.startswith("eas/native/"):
        subprocess.run([sys.executable, "tools/build_native.py"], cwd=tree, check=True)


def run_random(tree: Path, options: argparse.Namespace) -> int:
    """Plant bugs by rule and print which survive: whether those change a number has to be read."""
    lines = LineMap(options.map)
    sites = random_sites(tree, lines, options.random, options.seed, options.only)
    killed = 0
    for number, site in enumerate(sites, 1):
        file, start = tree / site.file, time.monotonic()
        sound = file.read_text()
        try:
            file.write_text(site.planted(sound))
            killer = noticed_by_lines(tree, site, lines, options)
        finally:
            file.write_text(sound)
        killed += bool(killer)
        before = " ".join(sound[site.start : site.stop].split())
        print(f"{number:3d}/{len(sites)} {'killed  ' if killer else 'SURVIVED'} {time.monotonic() - start:5.0f} s  {site}: {killer}\n      {before} => {site.text}", flush=True)
    print(f"{killed} of {len(sites)} killed")
    return 0


def noticed_by_lines(tree: Path, site: Site, lines: LineMap, options: argparse.Namespace) -> str:
    """What notices a random mutant: a few tests that execute its line, then more of them, then whole files of them."""
    draw = random.Random(options.seed)
    for seconds, most in ((8.0, 20), (25.0, 60)):
        killer = notice(tree, shlex.join(lines.choice(site, seconds, most, draw)), options.jobs, options.seconds)
        if killer:
            return killer
    return next(filter(None, (notice(tree, tests, options.jobs, options.seconds) for tests in lines.files(site, options.files))), "")


def main() -> int:
    """Run the mutants that are asked for and print a line each."""
    parser = argparse.ArgumentParser(description="plant bugs and see which tests notice")
    parser.add_argument("--only", default="", help="mutants with this in their name or file")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--all", action="store_true", help="survivors meet the whole suite")
    parser.add_argument("--jobs", type=int, default=0, help="test processes; 0: none besides the one that runs them")
    parser.add_argument("--seconds", type=float, default=300, help="for the tests of one mutant")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="plant so many bugs by rule, at random lines that tests execute")
    parser.add_argument("--seed", type=int, default=0, help="of --random")
    parser.add_argument("--map", nargs="+", default=[], metavar="FILE", help="of --random: which tests execute which line, from tools/line_tests.py")
    parser.add_argument("--files", type=int, default=0, help="of --random: so many whole files of tests meet a survivor")
    options = parser.parse_args()
    mutants = [m for m in MUTANTS if options.only in m.name or options.only in m.file]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.file}: {mutant.name}")
        return 0
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copied_tree(Path(folder))
        os.environ["EAS_SIM_CACHE_DIR"] = str(tree / ".sim-cache")  # the software Metal's own sources are mutated too
        if options.random:
            return run_random(tree, options)
        for number, mutant in enumerate(mutants, 1):
            start = time.monotonic()
            killer = judged(mutant, tree, options)
            if not killer:
                survivors.append(mutant)
            print(f"{number:3d}/{len(mutants)} {'killed  ' if killer else 'SURVIVED'} {time.monotonic() - start:5.0f} s  {mutant.name}: {killer or mutant.file}", flush=True)
    killed = len(mutants) - len(survivors)
    print(f"{killed} of {len(mutants)} killed ({killed / max(1, len(mutants)):.0%})")
    return int(killed < WANTED * len(mutants))


if __name__ == "__main__":
    raise SystemExit(main())
