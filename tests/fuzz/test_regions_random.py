"""Random kernels whose branches and loops mostly do not run: every backend leaves what the interpreter leaves in memory.

`FUZZ_KERNELS=4000 python -m pytest tests/fuzz/test_regions_random.py` runs more of them than the suite does.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import Trait
from eas.ops import TABLE
from tests.backend.launches import METAL, REFUSALS
from tests.fuzz.random_regions import PROGRAMS, BlockWriter, RegionKernel
from tests.fuzz.random_thread_regions import ThreadWriter
from tests.unit.plain_hooks import load_source

COUNT = int(os.environ.get("FUZZ_KERNELS", "16"))  # of each kind
TOGETHER = 8  # kernels of one test
MODES = ("", "EAS_NOOPT", "EAS_CHECK_BOUNDS", "EAS_NUM_THREADS")
WRITERS = {"blocks": BlockWriter, "threads": ThreadWriter}


def run(given: RegionKernel) -> list[np.ndarray]:
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in given.args]
    eas.kernel(load_source(given.source, mk=mk, eas=eas)["kernel"])[(PROGRAMS,)](*args)
    return [a for a in args if isinstance(a, np.ndarray)]


def check(kind: str, seed: int, backend: str, monkeypatch) -> None:
    """One kernel on the interpreter and on a backend, in a mode that changes from seed to seed."""
    given, mode = WRITERS[kind](seed).kernel(), MODES[seed % len(MODES)]
    with monkeypatch.context() as patch:
        patch.setenv("EAS_BACKEND", "interp")
        want = run(given)
        patch.setenv("EAS_BACKEND", backend)
        if mode and backend == "cpu":
            patch.setenv(mode, "1")
        try:
            got = run(given)
        except eas.Unsupported as refusal:
            if backend not in METAL or not REFUSALS.search(refusal.message):
                raise
            return
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        where = np.flatnonzero(ours != theirs)[:5]
        assert not where.size, f"{kind} {seed} {mode}, buffer {i}{where}: {ours[where]}, expected {theirs[where]}\n{given.source}"


@pytest.mark.left_out(lambda backend: backend == "interp")  # the judge
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("first", range(0, COUNT, TOGETHER))
def test_kernels_agree_with_the_interpreter(first, kind, backend, monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")
    monkeypatch.setenv("EAS_VERIFY", "0")  # as much time again; the passes have their own tests
    # A Metal compiler takes its time.
    for seed in range(first, first + TOGETHER, 4 if backend in METAL else 1):
        try:
            check(kind, seed, backend, monkeypatch)
        except Exception as error:
            error.add_note(f"{kind} {seed}")
            raise


# What is said by another name than that of its op, or by none.
_SPELT = {"scan": "associative_scan", "permute": "trans", "broadcast": "broadcast_to", "expand_dims": "arange"}
_ELSEWHERE = {"const", "program_id", "num_programs", "tid", "local_id", "sg_id", "alloc_tg", "mma_zero", "mma_select", "for", "while", "if"}


def test_every_op_that_looks_across_elements_stands_in_a_region():
    said = {name for seed in range(100) for kind in WRITERS.values() for name in kind(seed).kernel().ops}
    other = (Trait.ELEMENTWISE, Trait.SCHEDULED, Trait.TERMINATOR, Trait.EFFECT)
    wanted = {name for name, op in TABLE.items() if not any(map(op.has, other))} | {"barrier"}
    assert {_SPELT.get(name, name) for name in wanted - _ELSEWHERE} <= said
