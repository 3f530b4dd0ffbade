"""Fixtures of the tests of native launches."""

import sys

import pytest


@pytest.fixture
def learns_soon(monkeypatch):
    """Launches go to the CPU, and are native after the second."""
    from eas.launch.native_plan import why_not_here

    if why_not_here() is not None:
        pytest.skip(str(why_not_here()))
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setattr(sys.modules["eas.kernel"], "LEARN_AFTER", 2)  # eas.kernel is the decorator


@pytest.fixture
def ordinary(monkeypatch):
    """A list that grows with every launch that Python makes."""
    from eas.runtime.cpu import CpuRuntime

    runs, run = [], CpuRuntime.run

    def counted(self, executable, *args, **options):
        runs.append(executable.name)
        return run(self, executable, *args, **options)

    monkeypatch.setattr(CpuRuntime, "run", counted)
    return runs
