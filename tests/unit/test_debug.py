"""What `EAS_DEBUG` prints, level by level, and that it goes to stderr."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.recent import Recent
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
    monkeypatch.setattr(debug, "atexit", types.SimpleNamespace(register=registered.append))  # not that of others
    monkeypatch.setenv("EAS_BACKEND", "interp")
    return registered


def launch(level, monkeypatch, n=100):
    monkeypatch.setenv("EAS_DEBUG", str(level))
    copy_kernel(np.zeros(n, np.float32), np.zeros(n, np.float32), n, BLOCK=32)


NUMBERS = re.compile(r" +mem +([\d.]+) GB tm +[\d.]+us/ *[\d.]+ms \( *([\d.]+|\?) GFLOPS +([\d.]+|\?) GB/s\)$", re.MULTILINE)
SUMMARY = r"avg: +[\d.]+ GFLOPS +[\d.]+ GB/s +total: +(\d+) kernels +(\d+) copies +[\d.]+ GOPS +[\d.]+ GB +[\d.]+ ms"
PID = os.getpid()


def without_numbers(text):
    return NUMBERS.sub(" ...", text)


@pytest.mark.usefixtures("closing")
def test_level_0_prints_nothing(monkeypatch, capsys):
    launch(0, monkeypatch)
    assert capsys.readouterr() == ("", "")


def test_level_1_opens_a_device_once_and_ends_with_a_summary(monkeypatch, capsys, closing):
    launch(1, monkeypatch)
    launch(1, monkeypatch)
    assert capsys.readouterr() == ("", f"opened device INTERP from pid:{PID}\n")
    (summarise,) = closing
    summarise()
    assert re.fullmatch(SUMMARY + "\n", capsys.readouterr().err)[1] == "2"


@pytest.mark.usefixtures("closing")
def test_level_2_has_a_line_per_launch(monkeypatch, capsys):
    launch(2, monkeypatch)
    launch(2, monkeypatch, n=32)
    assert without_numbers(capsys.readouterr().err).splitlines() == [
        f"opened device INTERP from pid:{PID}",
        "*** INTERP     1 copy_kernel                  grid (4,1,1) ...",
        "*** INTERP     2 copy_kernel                  grid (1,1,1) ...",
    ]


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("name", ["interp", "cpu", "sim"])
def test_every_backend_tells_memory_and_rates(monkeypatch, capsys, name):
    if not eas.runtime.get_runtime(name).is_available():
        pytest.skip(f"needs the {name} backend")
    monkeypatch.setenv("EAS_BACKEND", name)
    launch(2, monkeypatch, n=5_000_000 if name == "cpu" else 4096)
    (found,) = NUMBERS.findall(capsys.readouterr().err)
    memory, flops, rate = map(float, found)
    assert flops == 0
    if name == "cpu":
        assert memory == 0.04
        assert rate > 0


@pytest.mark.usefixtures("closing")
def test_rates_that_nobody_knows_are_not_made_up(monkeypatch, capsys):
    @eas.kernel
    def halve(x, BLOCK: eas.constexpr):
        i = mk.arange(0, BLOCK)
        v = mk.load(x, i)
        while mk.any(v > 1):
            v = v / 2
        mk.store(x, i, v)

    monkeypatch.setenv("EAS_DEBUG", "2")
    halve(np.ones(8, np.float32), BLOCK=8, _grid=1)
    (found,) = NUMBERS.findall(capsys.readouterr().err)
    assert found[1] == "?"


# --- copies -------------------------------------------------------------------------------------


def copies(text):
    return [" ".join(without_numbers(line).split()[4:-1]) for line in text.splitlines() if " copy " in line]


@pytest.mark.usefixtures("closing")
def test_level_2_tells_of_copies_of_strided_arguments(monkeypatch, capsys):
    monkeypatch.setenv("EAS_DEBUG", "2")
    x, y = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    copy_kernel(x[::2], y[::2], 100, BLOCK=32)
    text = capsys.readouterr().err
    assert copies(text) == ["400, CPU <- CPU"] * 3  # x and y before the launch, y after it
    assert re.findall(r"^\*\*\* \w+ +\d+ (\w+)", text, re.MULTILINE) == ["copy", "copy", "copy_kernel", "copy"]
    assert (y[::2] == x[::2]).all()


@pytest.mark.usefixtures("closing")
def test_level_2_tells_of_copies_of_tensors(monkeypatch, capsys):
    monkeypatch.setenv("EAS_DEBUG", "2")
    x = eas.tensor([1, 2])
    x.clone().to("f16")
    eas.tensor(np.zeros(3))  # shared
    text = capsys.readouterr().err
    assert copies(text) == ["8, CPU <- PYTHON", "8, CPU <- CPU", "4, CPU <- CPU"]
    assert text.splitlines()[:2] == [f"opened device CPU from pid:{PID}", f"opened device PYTHON from pid:{PID}"]


def test_copies_and_launches_are_summed_up_apart(monkeypatch, capsys, closing):
    monkeypatch.setenv("EAS_DEBUG", "1")
    copy_kernel(eas.tensor([1.0, 2.0]), eas.zeros(2).clone(), 2, BLOCK=2)
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("opened device") for line in lines)
    closing[0]()
    kernels, copied = map(int, re.fullmatch(SUMMARY + "\n", capsys.readouterr().err).groups())
    assert kernels == 1
    assert copied >= 2


@pytest.mark.usefixtures("closing")
def test_colours_are_for_terminals_only(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    launch(2, monkeypatch)
    assert "\033[1mcopy_kernel" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    launch(2, monkeypatch)
    assert "\033" not in capsys.readouterr().err


# --- texts --------------------------------------------------------------------------------------


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
    assert capsys.readouterr().err == f"opened device ASYNC from pid:{PID}\n"


def test_summary_comes_when_the_process_ends(tmp_path):
    env = {**os.environ, "EAS_DEBUG": "2", "EAS_BACKEND": "interp", "EAS_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "examples.add"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["add of 1031: largest error 0 against NumPy on interp: ok"]
    first, line, last = done.stderr.splitlines()
    assert re.fullmatch(r"opened device INTERP from pid:\d+", first)
    assert line.startswith("*** INTERP     1 add_kernel ")
    assert re.fullmatch(SUMMARY, last).groups() == ("1", "0")


@pytest.mark.usefixtures("closing")
def test_launches_are_told_under_the_name_they_are_called_by(monkeypatch, capsys):
    with debug.called("r_100_copy"):
        launch(2, monkeypatch)
    launch(2, monkeypatch)
    assert re.findall(r"^\*\*\* INTERP +\d+ (\w+)", capsys.readouterr().err, re.MULTILINE) == ["r_100_copy", "copy_kernel"]
