"""`python -m eas sim`: what it lists, runs, prints and writes, and what it says about wrong options."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas.__main__ as cli
from eas.base import dtypes, numerics
from eas.metal_sim import command, toolchain

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
TEXT = """#include <metal_stdlib>
using namespace metal;
constant int more [[function_constant(3)]];
constant bool twice [[function_constant(4)]];
kernel void add(device const float* a, device float* out, constant float& s, uint i [[thread_position_in_grid]]) { out[i] = a[i] + s; }
kernel void shift(device int* x, uint i [[thread_position_in_grid]]) { x[i] = twice ? 2 * more : more; }
kernel void turn(device int* x, threadgroup int* tile [[threadgroup(0)]], uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  tile[t] = int(t);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[t] = tile[n - 1 - t];
}
kernel void clash(device int* x, uint t [[thread_index_in_threadgroup]]) { x[0] = int(t); }
kernel void where(device uint* x, uint3 p [[thread_position_in_grid]]) { x[p.x + 3 * p.y] = 10 * p.y + p.x; }
"""


@pytest.fixture
def sim(tmp_path, monkeypatch, capsys):
    """Runs the command on TEXT; (status, what it printed, what it printed as errors)."""
    monkeypatch.chdir(tmp_path)
    Path("k.metal").write_text(TEXT)

    def run(*options, file="k.metal"):
        status = cli.main(["sim", file, *options])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_list_shows_constants_kernels_and_parameters(sim):
    status, out, err = sim()
    assert (status, err) == (0, "")
    assert out.startswith("constant more\nconstant twice\nadd\n    device const float* a  [buffer 0]\n")
    assert "    constant float& s  [buffer 2]\n    uint i  [thread_position_in_grid]\nshift\n" in out
    assert "    threadgroup int* tile  [threadgroup 0]\n" in out


def test_zeros_numbers_and_files_are_arguments(sim):
    np.save("a.npy", np.arange(4, dtype=np.float32))
    assert sim("--kernel", "add", "--arg", "a.npy", "--arg", "f32:4", "--arg", "0.5", "--grid-threads", "4", "--threads", "2") == (0, "out = [0.5 1.5 2.5 3.5]\n", "")
    assert sim("--kernel", "add", "--arg", "f32:4", "--arg", "f32:4", "--arg", "0x10", "--grid", "4")[1] == "out = [16. 16. 16. 16.]\n"


def test_random_arguments_are_the_same_each_time(sim):
    run = ["--kernel", "add", "--arg", "rand:f32:2x8", "--arg", "f32:16", "--arg", "0", "--grid", "16"]
    first, second = sim(*run, "--out", "0", "--out", "1=out.npy"), sim(*run, "--out", "0")
    assert first == second
    assert first[1].startswith("a = [[ 0.12573022")
    assert np.array_equal(np.load("out.npy"), np.random.default_rng(0).standard_normal(16).astype(np.float32))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_random_arguments_of_every_dtype(dtype):
    values = command._argument(f"rand:{dtype.name}:50")
    assert values.dtype == dtype.np_storage
    decoded = np.asarray(numerics.decode(values, dtype), np.float64)
    assert len(np.unique(decoded)) > 1
    assert np.abs(decoded).max() <= 100


def test_function_constants_by_name_and_number(sim):
    run = ["--kernel", "shift", "--arg", "i32:2", "--grid", "2"]
    assert sim(*run, "--constant", "more=5", "--constant", "4=true")[1] == "x = [10 10]\n"
    assert sim(*run, "--constant", "3=-5", "--constant", "twice=false")[1] == "x = [-5 -5]\n"


def test_threadgroup_memory_and_extents(sim):
    assert sim("--kernel", "turn", "--arg", "i32:4", "--grid", "1", "--threads", "4", "--threadgroup-memory", "0=16")[1] == "x = [3 2 1 0]\n"
    assert sim("--kernel", "where", "--arg", "u32:2x3", "--grid", "1", "--threads", "3,2,1")[1] == "x = [[ 0  1  2]\n [10 11 12]]\n"


def test_language_math_and_include_reach_the_compiler(sim, tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "n.h").write_text("#define N 5\n")
    Path("n.metal").write_text('#include "n.h"\nkernel void f(device int* x) { x[0] = N + __METAL_VERSION__; }')
    run = ["--kernel", "f", "--arg", "i32:1", "--grid", "1", "--math", "fast"]
    assert sim(*run, "--include", "inc", "--language", "3.2", file="n.metal")[1] == "x = [325]\n"
    assert "'n.h' file not found" in sim(*run, file="n.metal")[2]


def test_sanitize_finds_a_race(sim):
    run = ["--kernel", "clash", "--arg", "i32:1", "--grid", "1", "--threads", "2"]
    assert sim(*run)[0] == 0
    status, out, err = sim(*run, "--sanitize")
    assert (status, out) == (1, "")
    assert "data race in clash" in err


ADD = ["--kernel", "add", "--arg", "f32:4", "--arg", "f32:4"]
WRONG = {
    "no such file": (["--kernel", "add", "--arg", "missing.npy"], r"--arg missing.npy: .*No such file"),
    "an empty file": (["--kernel", "add", "--arg", "empty.npy"], r"--arg empty.npy: (.|\n)*a file that np.save has written"),
    "no numpy file": (["--kernel", "add", "--arg", "text.npy"], r"--arg text.npy: "),
    "no argument": ([*ADD, "--arg", "abc", "--grid", "1"], r"--arg abc is no file, shape or number\n  hint: x.npy, f32:1024"),
    "no dtype": ([*ADD, "--arg", "f31:4", "--grid", "1"], r"--arg f31:4 is no dtype:shape; the dtypes are .*f32"),
    "no shape": ([*ADD, "--arg", "f32:4x", "--grid", "1"], r"--arg f32:4x is no dtype:shape"),
    "no digits": ([*ADD, "--arg", "f32:4²", "--grid", "1"], r"--arg f32:4² is no dtype:shape"),
    "no kind": ([*ADD, "--arg", "ones:f32:4", "--grid", "1"], r"--arg ones:f32:4 is no dtype:shape"),
    "too large": ([*ADD, "--arg", "f32:99999999999x99999999999", "--grid", "1"], r"is larger than the memory"),
    "no grid": ([*ADD, "--arg", "1"], r"a launch of add needs one of grid"),
    "no extent": ([*ADD, "--arg", "1", "--grid", "4;2"], r"--grid 4;2 is not one to three sizes\n  hint: --grid 4 or --grid 4,2,1"),
    "four extents": ([*ADD, "--arg", "1", "--grid", "1,1,1,1"], r"grid=\(1, 1, 1, 1\) is not one to three sizes"),
    "no out": ([*ADD, "--arg", "1", "--grid", "1", "--out", "7"], r"--out 7 is no argument; there are 3\n  hint: --out 0 or"),
    "no out number": ([*ADD, "--arg", "1", "--grid", "1", "--out", "²"], r"--out ² is no argument"),
    "no out folder": ([*ADD, "--arg", "1", "--grid", "1", "--out", "1=none/x.npy"], r"--out cannot write none/x.npy: No such file or directory"),
    "no pair": ([*ADD, "--constant", "more"], r"'more' is no NAME=VALUE"),
    "no constant": ([*ADD, "--constant", "more=f32:4"], r"--constant more=f32:4 is no number\n  hint: --constant n=3"),
    "no memory": (["--kernel", "turn", "--arg", "i32:4", "--grid", "1", "--threadgroup-memory", "tile=x"], r"--threadgroup-memory tile=x is no INDEX=NBYTES"),
    "too few": ([*ADD, "--grid", "1"], r"kernel add needs s; its buffers are a, out, s"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_told(sim, case):
    Path("empty.npy").touch()
    Path("text.npy").write_text("no array")
    options, message = WRONG[case]
    status, out, err = sim(*options)
    assert (status, out) == (1, "")
    assert re.search(f"^eas: {message}", err) or re.search(f"^eas: .*{message}", err), err


def test_files_that_cannot_be_read_are_told(sim):
    Path("latin.metal").write_bytes(b"// \xe9\n")
    assert sim(file="latin.metal") == (1, "", "eas: cannot read latin.metal: it is no UTF-8 text\n")
    assert sim(file="none.metal") == (1, "", "eas: cannot read none.metal: No such file or directory\n")
    assert sim(file=".") == (1, "", "eas: cannot read .: Is a directory\n")


def test_as_a_program(sim, tmp_path):
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-m", "eas", "sim", "k.metal", "--kernel", "none"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("eas: there is no kernel 'none' in k.metal; it has add, shift, turn, clash, where\n")
