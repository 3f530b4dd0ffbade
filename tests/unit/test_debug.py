"""What `EAS_DEBUG` prints, level by level, and that it goes to stderr."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.recent import Recent
from eas.runtime import Runtime, debug

ROOT = Path(__file__).parents[2]


@eas.kernel
def copy_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N), offs < N)


@pytest.fixture
def closing(monkeypatch):
    """A ledger of the test's own; the functions that would run at exit."""
    registered = []
    monkeypatch.setattr(debug, "_ledger", debug.Ledger())
    monkeypatch.setattr("atexit.register", registered.append)
    monkeypatch.setenv("EAS_BACKEND", "interp")
    return registered


def launch(level, monkeypatch, n=100):
    monkeypatch.setenv("EAS_DEBUG", str(level))
    copy_kernel(np.zeros(n, np.float32), np.zeros(n, np.float32), n, BLOCK=32)


def without_times(text):
    return re.sub(r" *[\d.]+us/ *[\d.]+ms", " TIME", text)


@pytest.mark.usefixtures("closing")
def test_level_0_prints_nothing(monkeypatch, capsys):
    launch(0, monkeypatch)
    assert capsys.readouterr() == ("", "")


def test_level_1_opens_a_backend_once_and_ends_with_a_summary(monkeypatch, capsys, closing):
    launch(1, monkeypatch)
    launch(1, monkeypatch)
    assert capsys.readouterr() == ("", "opened backend interp\n")
    (summarise,) = closing
    summarise()
    assert re.fullmatch(r"total: 2 launches [\d.]+ ms\n", capsys.readouterr().err)


@pytest.mark.usefixtures("closing")
def test_level_2_has_a_line_per_launch(monkeypatch, capsys):
    launch(2, monkeypatch)
    launch(2, monkeypatch, n=32)
    assert without_times(capsys.readouterr().err).splitlines() == [
        "opened backend interp",
        "*** INTERP     1 copy_kernel                  grid (4,1,1)        tm TIME",
        "*** INTERP     2 copy_kernel                  grid (1,1,1)        tm TIME",
    ]


@pytest.mark.usefixtures("closing")
def test_level_4_has_no_text_to_show_on_the_interpreter(monkeypatch, capsys):
    launch(4, monkeypatch)
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.usefixtures("closing")
def test_level_5_shows_each_variant_once(monkeypatch, capsys):
    monkeypatch.setattr(copy_kernel, "_compiled", Recent())
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
    monkeypatch.setenv("EAS_DEBUG", "5")
    for _ in range(2):
        copy_kernel(x, y, 100, BLOCK=32)
    text = capsys.readouterr().err
    heads = re.findall(r"^\*\*\* IR of copy_kernel, relies on: .*disjoint$", text, re.MULTILINE)
    assert len(heads) == 1
    assert text.count("kernel copy_kernel(%x: ptr<f32>") == 1
    copy_kernel(x, x, 100, BLOCK=32)
    assert "*** IR of copy_kernel" in capsys.readouterr().err  # one array twice: not disjoint


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("level", [2, 4, 5])
def test_cpu_shows_the_text_of_each_variant_once(monkeypatch, capsys, level):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(copy_kernel, "_compiled", Recent())
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_DEBUG", str(level))
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)  # others may be aligned differently: another variant
    for _ in range(2):
        copy_kernel(x, y, 100, BLOCK=32)
    text = capsys.readouterr().err
    about = r"copy_kernel, relies on: .*disjoint$"
    heads = [len(re.findall(rf"^\*\*\* {what} of {about}", text, re.MULTILINE)) for what in ("LLVM", "IR", "scheduled IR")]
    assert heads == [level >= 4, level >= 5, level >= 5]
    assert text.count("define void @eas_kernel(") == (level >= 4)
    assert text.count('scheduled="loops"') == (level >= 5)


@pytest.mark.usefixtures("closing")
def test_empty_launch_is_not_counted(monkeypatch, capsys):
    launch(2, monkeypatch, n=0)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("closing")
def test_timed_launch_waits(monkeypatch, capsys):
    seen = []

    class Async(Runtime):
        name = "async"

        def why_unavailable(self):
            return None

        def run(self, executable, args, grid, *, sync=True, lane=None):
            seen.append(sync)

    executable = copy_kernel.compile(np.zeros(1), np.zeros(1), 1, BLOCK=32).variant()
    for level in (0, 1):
        monkeypatch.setenv("EAS_DEBUG", str(level))
        debug.run(Async(), executable, [], (1, 1, 1), sync=False)
    assert seen == [False, True]
    assert capsys.readouterr().err == "opened backend async\n"


def test_summary_comes_when_the_process_ends(tmp_path):
    env = {**os.environ, "EAS_DEBUG": "2", "EAS_BACKEND": "interp", "EAS_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "examples.add"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["add of 1031: largest error 0 against NumPy on interp: ok"]
    first, line, last = done.stderr.splitlines()
    assert first == "opened backend interp"
    assert line.startswith("*** INTERP     1 add_kernel ")
    assert re.fullmatch(r"total: 1 launch [\d.]+ ms", last)
