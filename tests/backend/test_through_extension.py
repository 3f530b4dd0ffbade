"""The Metal runtime passes the tests of this folder: a sample of them through `eas._metal` on the fake Metal, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.fake_metal import NEEDS_EXTENSION

ROOT = Path(__file__).parents[2]
ONE_IN, LEAST = 12, 150


pytestmark = NEEDS_EXTENSION
LEAKS = """
from eas.runtime import get_runtime
kept = []
def test_that_keeps(backend):
    kept.append(get_runtime("mps").memory.buffer(100))
"""
REFUSED = """
from eas.runtime import get_runtime
def test_that_does_wrong(backend):
    runtime = get_runtime("mps")
    runtime.extension().hooks.native.eas_fake_note(b"a note of the validation layer")
"""


def test_a_sample_passes_through_the_extension():
    """`EAS_METAL=software python -m pytest tests/backend --backend mps` runs all of them. On apple7 the texts are those of `sim`, compiled once."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | {"EAS_METAL": "software", "EAS_FAKE_FAMILY": "7", "EAS_VERIFY": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--backend=mps", f"--one-in={ONE_IN}", "tests/backend", f"--deselect=tests/backend/{Path(__file__).name}"]
    ignored = [f"--ignore=tests/backend/{name}.py" for name in ("test_aarch64", "test_machines", "test_coverage")]
    done = subprocess.run([*command, *ignored], cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= LEAST, done.stdout


@pytest.mark.parametrize(("script", "said"), [(LEAKS, "buffers that no tensor uses are alive"), (REFUSED, "a note of the validation layer")], ids=["leak", "note"])
def test_what_is_left_at_the_end_of_a_run_fails_it(script, said, tmp_path):
    (tmp_path / "test_wrong.py").write_text(script)
    env = os.environ | {"EAS_METAL": "software", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--backend=mps", "test_wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed, 1 error" in done.stdout
    assert said in done.stdout
