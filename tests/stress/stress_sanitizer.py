"""The sanitizer over random kernels without races: silent, and memory is as the interpreter leaves it. Not part of the suite."""

from __future__ import annotations

import os

import numpy as np
import pytest

from eas.base.errors import SanitizerError
from eas.metal_sim import Library, toolchain
from tests.fuzz import test_kernels_random, test_programs_random, test_user_kernels_random

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
SEEDS = range(10_000, 10_000 + int(os.environ.get("STRESS_KERNELS", "100")))  # seeds that the suite does not have


@pytest.fixture(autouse=True)
def _sanitized(monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")
    monkeypatch.setenv("EAS_BACKEND", "sim")
    monkeypatch.setenv("EAS_VERIFY", "0")  # as much time again; the passes have their own tests


def test_the_sanitizer_is_on():
    kernel = Library("kernel void f(device int* x, uint t [[thread_index_in_threadgroup]]) { x[0] = int(t); }").kernel("f")
    with pytest.raises(SanitizerError, match="data race"):
        kernel(np.zeros(1, np.int32), grid=1, threads=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_programs(seed):
    test_programs_random.check(seed, "sim")


@pytest.mark.parametrize("seed", SEEDS)
def test_threads(seed):
    test_kernels_random.check_threads(seed, "sim")


@pytest.mark.parametrize("seed", SEEDS)
def test_control_flow(seed, monkeypatch):
    monkeypatch.setenv("EAS_NOOPT", str(seed % 2))
    test_kernels_random.check_control_flow(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_user_kernels(seed, monkeypatch):
    test_user_kernels_random.check(seed, monkeypatch, "sim")
