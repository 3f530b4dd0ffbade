"""The net under a change of shape: all code that kernels become, written to a folder, and two such folders compared.

    python tools/diff_codegen.py write FOLDER [pytest options]   # goldens, eas.lib, examples, benchmarks, random kernels
    python tools/diff_codegen.py compare OLD NEW [--map RENAMES] # exit 1 if a text differs; RENAMES has lines "old new"

Every variant that those launches ask for is compiled for three fixed CPUs and one fixed GPU, whatever machine this is: `KERNEL-KEY.ir` is
the optimised block IR, `.avx2.ir` and `.msl.ir` what the schedules make of it, `.avx2.ll`, `.avx512.ll`, `.neon.ll` and `.metal` the texts.
KEY is made from the traced IR and the facts of the launch, so that one kernel keeps its name while passes and schedules move.
A target that refuses a kernel leaves its reason as the text. Words of RENAMES are replaced as whole words on both sides of names with dots.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = "EAS_CODEGEN_FOLDER"
TESTS = (
    "tests/unit/test_golden_msl.py", "tests/backend/test_lib.py", "tests/backend/test_lib_network.py", "tests/backend/test_examples.py",
    "tests/fuzz/test_user_kernels_random.py", "tests/fuzz/test_programs_random.py", "tests/fuzz/test_regions_random.py",
)  # fmt: skip
MOST_SHOWN = 20
"""Lines of a difference."""


# --- writing: a plugin of pytest, and a run over the benchmark's own kernels ------------------------


def pytest_configure(config: Any) -> None:
    """Write the texts of every variant that a test compiles."""
    if FOLDER in os.environ:
        watch(Path(os.environ[FOLDER]))


def watch(folder: Path) -> None:
    """From now on each variant that is compiled leaves its texts in the folder."""
    from eas import lowering

    compile_module = lowering.compile_module

    def compile_and_write(traced: Any, facts: Any, noopt: bool) -> Any:
        module = compile_module(traced, facts, noopt)
        stem = _stem(traced, facts, noopt)
        if not (folder / f"{stem}.ir").exists():
            for suffix, text in texts(module, noopt):
                (folder / f"{stem}.{suffix}").write_text(text)
        return module

    lowering.compile_module = compile_and_write


def _stem(traced: Any, facts: Any, noopt: bool) -> str:
    from eas.ir.text import print_module

    known = [print_module(traced), str(noopt), str(traced.attr("num_warps")), *sorted(map(str, facts))]
    name = re.sub(r"\W", "_", traced.name)[:40]
    return f"{name}-{hashlib.sha256(chr(0).join(known).encode()).hexdigest()[:12]}"


def texts(module: Any, noopt: bool) -> Iterator[tuple[str, str]]:
    """What a variant becomes, by the ending of its file."""
    from eas.codegen.llvm.generate import generate
    from eas.codegen.msl.generate import generate_msl
    from eas.ir.text import print_module
    from eas.schedule.cpu_steps import schedule
    from eas.schedule.gpu.target import DEFAULT
    from eas.schedule.gpu_steps import schedule_metal
    from eas.schedule.target import AVX2, AVX512, NEON

    yield "ir", print_module(module)
    for target in (AVX2, AVX512, NEON):
        name = target.name.lower().replace("-", "")
        scheduled = _or_reason(lambda target=target: schedule(module, target))
        if isinstance(scheduled, str):
            yield f"{name}.ll", scheduled
            continue
        if target is AVX2:
            yield f"{name}.ir", print_module(scheduled)
        yield f"{name}.ll", _or_reason(lambda scheduled=scheduled, target=target: generate(scheduled, target).llvm)
    scheduled = _or_reason(lambda: schedule_metal(module, DEFAULT, num_warps=module.attr("num_warps"), is_serial=noopt))
    if isinstance(scheduled, str):
        yield "metal", scheduled
        return
    yield "msl.ir", print_module(scheduled)
    yield "metal", _or_reason(lambda: generate_msl(scheduled, DEFAULT).text)


def _or_reason(make: Callable[[], Any]) -> Any:
    """What a target makes, or why it refuses to."""
    from eas.base.errors import EasError

    try:
        return make()
    except EasError as refusal:
        return f"refused: {type(refusal).__name__}: {refusal.message}\n"


def write_benchmarks(folder: Path) -> None:
    """The kernels of the benchmark rows, each launched once."""
    import numpy as np

    from benchmarks.registry import workloads

    watch(folder)
    for workload in workloads():
        for entry in workload.entries:
            if entry.peer == "eas" and not workload.self_timed:
                entry.prepare(*workload.make(np.random.default_rng(0)))()


def write(folder: Path, options: list[str]) -> int:
    """Fill a folder; random kernels and tests always come in one order, so that two runs leave the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, FOLDER: str(folder.resolve()), "EAS_VERIFY": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.diff_codegen", "-p", "no:cacheprovider", "--backend", "cpu", *TESTS, *options]
    status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    if status == 0 and not options:
        status = subprocess.run([sys.executable, __file__, "benchmarks", str(folder)], cwd=ROOT, env={**env, "EAS_CACHE_DIR": str(folder / "cache")}, check=False).returncode
    print(f"{len(list(folder.glob('*.ir')))} modules in {folder}")
    return status


# --- comparing -------------------------------------------------------------------------------------


def renamed(text: str, renames: dict[str, str]) -> str:
    """The text with whole words replaced."""
    if not renames:
        return text
    words = "|".join(sorted(map(re.escape, renames), key=len, reverse=True))
    return re.sub(rf"(?<![\w.])({words})(?![\w.])", lambda m: renames[m[0]], text)


def differences(old: Path, new: Path, renames: dict[str, str]) -> Iterator[str]:
    """A paragraph for each file that differs or stands on one side only."""
    ours, theirs = ({p.name: p for p in folder.iterdir() if p.is_file()} for folder in (old, new))
    for name in sorted(ours.keys() ^ theirs.keys()):
        yield f"only in {old if name in ours else new}: {name}"
    for name in sorted(ours.keys() & theirs.keys()):
        before, after = renamed(ours[name].read_text(), renames), theirs[name].read_text()
        if before != after:
            lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "old", "new", lineterm="", n=1))
            rest = f"\n... {len(lines) - MOST_SHOWN} more lines" if len(lines) > MOST_SHOWN else ""
            yield f"{name}\n" + "\n".join(lines[:MOST_SHOWN]) + rest


def compare(old: Path, new: Path, map_path: Path | None) -> int:
    """Print what differs; 1 if anything does."""
    pairs = (line.split() for line in map_path.read_text().splitlines() if line.strip()) if map_path else ()
    found = list(differences(old, new, dict(pairs)))
    for paragraph in found:
        print(paragraph)
    print(f"{len(found)} of {len({p.name for folder in (old, new) for p in folder.iterdir() if p.is_file()})} texts differ")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("folder", type=Path)
    commands.add_parser("benchmarks").add_argument("folder", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--map", type=Path, dest="map_path")
    asked, rest = parser.parse_known_args()
    if asked.command == "write":
        return write(asked.folder, rest)
    if asked.command == "benchmarks":
        write_benchmarks(asked.folder)
        return 0
    return compare(asked.old, asked.new, asked.map_path)


if __name__ == "__main__":
    raise SystemExit(main())
