"""Kernels and the disk cache: a folder that cannot be used is no error, and equal functions share a compiled kernel."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime.disk_cache import default_cache


@eas.kernel
def double_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * 2, offs < N)



def launch():
    """What a new process does: nothing is in memory."""
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    eas.Kernel(double_kernel.fn)(x, y, 100, BLOCK=32)
    return y


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")


def is_right(y):
    return np.array_equal(y, np.arange(100) * 2)


def test_without_cache_kernels_run_and_write_nothing(on_cpu, monkeypatch, tmp_path):
    monkeypatch.setenv("EAS_CACHE", "0")
    assert is_right(launch())
    assert is_right(launch())
    assert not Path(os.environ["EAS_CACHE_DIR"]).exists()


@pytest.mark.parametrize("place", ["a file", "below a file", "/proc/no-such-directory"])
def test_directory_that_cannot_be_used_is_no_error(on_cpu, monkeypatch, tmp_path, place):
    file = tmp_path / "file"
    file.write_text("not a directory")
    folder = {"a file": file, "below a file": file / "cache"}.get(place, Path(place))
    monkeypatch.setenv("EAS_CACHE_DIR", str(folder))
    assert is_right(launch())
    assert is_right(launch())
    assert default_cache().problem
    assert file.read_text() == "not a directory"


def test_read_only_directory_is_no_error(on_cpu, monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path / "locked"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert is_right(launch())
    assert "cannot write" in default_cache().problem


@eas.kernel
def applied(x, y, f: eas.constexpr, N: eas.constexpr):
    i = mk.arange(0, N)
    mk.store(y, i, f(mk.load(x, i)))


def scaled(value, factor):
    return value * factor


def test_functions_made_anew_by_each_call_share_a_compiled_kernel():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)

    def times(factor):
        def multiply(a, bias=0.0):
            return a * factor + bias

        return multiply

    def compiled(f):
        applied[1](x, y, f=f, N=4)
        return applied.compile(x, y, f=f, N=4), float(y[0])

    same = [compiled(times(3.0)) for _ in range(3)]
    assert len({k for k, _ in same}) == 1
    assert [value for _, value in same] == [3.0] * 3
    assert compiled(times(4.0)) != same[0]
    assert compiled(times(3))[0] is not same[0][0]  # an int is another constant
    assert len({compiled(partial(scaled, factor=2.0))[0] for _ in range(2)}) == 1
    assert compiled(partial(scaled, factor=5.0))[1] == 5.0
    changed = times(3.0)
    changed.__defaults__ = (1.0,)
    assert compiled(changed)[1] == 4.0
    assert compiled(times(3.0))[1] == 3.0


def test_a_closure_that_changes_is_traced_anew_and_back():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    factor = 2.0

    def multiply(a):
        return a * factor

    seen = []
    for now in (2.0, 3.0, 2.0):
        factor = now
        applied[1](x, y, f=multiply, N=4)
        seen.append(float(y[0]))
    assert seen == [2.0, 3.0, 2.0]
