"""The end of a process: nothing that is alive then prints an error, and what `__del__` cannot do any more is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("shutdown_objects.py")
ROOT = SCRIPT.parents[2]


@pytest.mark.parametrize("how", ["global", "cycles", "module", "builtins", "thread"])
def test_objects_that_use_eas_when_they_die(how, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "EAS_BACKEND": "cpu", "EAS_CACHE_DIR": str(tmp_path), "EAS_DEBUG": "0", "EAS_VERIFY": "0"}
    for _ in range(2):  # the second process finds its kernels on disk
        done = subprocess.run([sys.executable, str(SCRIPT), how], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0
        assert done.stderr == ""
        said = dict(line.split(" refused: ") if "refused" in line else (line.removesuffix(" worked"), "") for line in done.stdout.splitlines())
        if how == "thread":  # a daemon thread keeps its objects to the very end
            continue
        assert {name for name, text in said.items() if not text} == {"native launch", "launch", "asynchronous launch", "tensor"}
        for name in ("new launch", "new types", "texts"):
            assert "cannot be compiled while Python ends" in said[name]
        assert said["new name"] == "eas.release_memory cannot be loaded while Python ends"
        assert "is a list, not an array" in said["wrong launch"]
