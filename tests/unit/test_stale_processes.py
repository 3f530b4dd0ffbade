"""Nothing that a kernel reads is taken from another process, nor from an earlier launch of this one."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.state_cases import CASES, module_text

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import json, sys
import numpy as np
import state_kernels as m
n = int(sys.argv[1])
found = {}
for name in [k.removeprefix("kernel_") for k in vars(m) if k.startswith("kernel_")]:
    before = sys.argv, divmod, __import__("math").pi
    getattr(m, "change_" + name)(n)
    out = np.zeros(1, np.float32)
    try:
        expected = getattr(m, "plain_" + name)()
        getattr(m, "change_" + name)(n)
        getattr(m, "kernel_" + name)(out, _grid=1)
        found[name] = [float(out[0]), float(np.float32(expected))]
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
    sys.argv, __import__("builtins").divmod = before[:2]
    __import__("math").pi = before[2]
    m.__dict__.pop("sum", None)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What each kernel stored and what Python says, in two processes with one cache."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "state_kernels.py").write_text(module_text())
    path = os.pathsep.join([str(folder), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "EAS_CACHE_DIR": str(folder / "cache"), "EAS_BACKEND": "cpu", "EAS_VERIFY": "0", "EAS_DEBUG": "0"}
    found = []
    for n in ("3", "2"):
        done = subprocess.run([sys.executable, "-c", RUN, n], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_second_process_reads_its_own_state(two_processes, case):
    for found in two_processes:
        assert isinstance(found[case.name], list), found[case.name]
        got, expected = found[case.name]
        assert got == expected
    if case.name != "time":
        assert two_processes[0][case.name] != two_processes[1][case.name]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    file = tmp_path_factory.mktemp("state") / "state_kernels_here.py"
    file.write_text(module_text())
    spec = importlib.util.spec_from_file_location("state_kernels_here", file)
    made = importlib.util.module_from_spec(spec)
    sys.modules["state_kernels_here"] = made
    spec.loader.exec_module(made)
    yield made
    del sys.modules["state_kernels_here"]


@pytest.fixture
def untouched(monkeypatch):
    """Puts back what the cases change of libraries."""
    import builtins
    import math

    for holder, name in ((sys, "argv"), (builtins, "divmod"), (math, "pi")):
        monkeypatch.setattr(holder, name, getattr(holder, name))
    monkeypatch.setattr(os, "environ", os.environ)
    limit, state = sys.getrecursionlimit(), np.random.get_state()
    yield
    sys.setrecursionlimit(limit)
    np.random.set_state(state)


@pytest.mark.parametrize("case", [c for c in CASES if c.seen_in_process], ids=lambda case: case.name)
@pytest.mark.parametrize("where", ["cpu", "interp"])
def test_next_launch_reads_the_state_of_now(kernels, untouched, monkeypatch, case, where):
    monkeypatch.setenv("EAS_BACKEND", where)
    change, plain, kernel = (getattr(kernels, f"{word}_{case.name}") for word in ("change", "plain", "kernel"))
    try:
        for n in (3, 2, 3):
            for _ in range(6 if where == "cpu" else 2):  # of which the last are native
                change(n)
                expected = np.float32(plain())
                change(n)
                out = np.zeros(1, np.float32)
                kernel(out, _grid=1)
                assert out[0] == expected
    finally:
        vars(kernels).pop("sum", None)
