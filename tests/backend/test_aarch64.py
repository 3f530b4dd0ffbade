"""Code for vectors of Arm processors runs: a sample of the tests of this folder, and of the random kernels, on an emulated one."""

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from tools import aarch64

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_RANDOM = [f"tests/fuzz/test_{name}_random.py" for name in ("backends", "kernels", "programs", "user_kernels")]


@pytest.mark.parametrize(("paths", "one_in", "least"), [(["tests/backend"], 60, 35), (_RANDOM, 10, 12)], ids=["suite", "random"])
def test_a_sample_passes_on_aarch64(paths, one_in, least):
    if platform.machine() in ("aarch64", "arm64"):
        pytest.skip("all of these tests run here themselves")
    reason = aarch64.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    pytest_ = [aarch64.interpreter(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--backend=cpu", f"--one-in={one_in}"]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTEST_ADDOPTS", "EAS_CPU")}
    environment["EAS_VERIFY"] = "0"  # the same passes are verified on this machine
    done = subprocess.run([*pytest_, *paths], cwd=_REPOSITORY, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= least, done.stdout


def test_what_is_missing_is_told_with_the_next_step(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(aarch64.shutil, "which", lambda program: f"/usr/bin/{program}")
    assert "tools/aarch64.py --make" in (aarch64.why_unavailable() or "")
    monkeypatch.setattr(aarch64.shutil, "which", lambda program: None)
    assert "apt-get install qemu-user" in (aarch64.why_unavailable() or "")
    assert aarch64.main(["-c", "pass"]) == 1
    assert "needs qemu-aarch64, apt-get, dpkg-deb" in capsys.readouterr().err
