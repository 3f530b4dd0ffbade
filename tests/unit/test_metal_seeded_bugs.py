"""The sanitizer finds each seeded bug of the table, by its kind, and is silent about the sound twin."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from eas.base.errors import SanitizerError
from eas.metal_sim import Library, toolchain
from eas.runtime.native.host_cpu import host_cpu
from tests.unit.sanitizer_cases import CASES, LANE, UNSET, Case

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
TOGETHER = 8  # kernels that a library compiles at once


@cache
def library(part: int, language: str, is_bad: bool) -> Library:
    """Some of the kernels of one language."""
    chosen = [(k, c) for k, c in enumerate(CASES) if c.language == language][part * TOGETHER : (part + 1) * TOGETHER]
    return Library(HEAD + "".join(c.text(f"k{k}", c.bad if is_bad else c.good) for k, c in chosen), language=language, sanitize=True)


def launch(case: Case, is_bad: bool) -> None:
    number = CASES.index(case)
    part = [k for k, c in enumerate(CASES) if c.language == case.language].index(number) // TOGETHER
    f, u = np.arange(256, dtype=np.float32), np.zeros(256, np.uint32)
    g = f if case.same else f + 1
    memory = {"tg": case.memory} if case.memory else {}
    library(part, case.language, is_bad).kernel(f"k{number}")(f, g, u, 64, grid=case.grid, threads=case.threads, threadgroup_memory=memory)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_a_bug_is_found_and_its_twin_is_silent(case):
    if case.kind in (UNSET, LANE) and host_cpu().arch != "x86_64":
        pytest.skip("the compiler finds values that nobody has set on x86-64 only")
    with pytest.raises(SanitizerError) as caught:
        launch(case, is_bad=True)
    assert case.kind in [found.kind for found in caught.value.findings]
    assert caught.value.findings[0].line is not None
    assert "hint:" in str(caught.value)
    launch(case, is_bad=False)


def test_there_are_bugs_of_all_kinds():
    assert len(CASES) >= 60
    assert len({c.name for c in CASES}) == len(CASES)
    assert len({c.kind for c in CASES}) == 9
