"""The commands of the README on Metal, as they are written there, on the fake: EAS_BACKEND=mps EAS_METAL=software."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.fake_metal import NEEDS_EXTENSION

ROOT = Path(__file__).parents[2]
pytestmark = NEEDS_EXTENSION


def python(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps", "PYTHONPATH": str(ROOT), **env}
    return subprocess.run([sys.executable, *args], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=120, check=False)


def test_example_of_the_readme_runs_on_metal():
    done = python("-m", "examples.add")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "add of 1031: largest error 0 against NumPy on mps: ok\n"


def test_build_tool_says_why_it_cannot_build_here():
    done = python("tools/build_metal_ext.py", EAS_METAL="native")
    assert done.returncode != 0
    assert "EAS_METAL=software" in done.stderr + done.stdout


DEVICE_TENSORS = """
import numpy as np
import eas
from eas import mk

@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    pid = mk.program_id(0)
    offs = pid * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    mk.store(c, offs, mk.load(a, offs, mask) + mk.load(b, offs, mask), mask)

n = 1 << 16
a = eas.tensor(np.random.randn(n).astype(np.float32), device="mps")
b = eas.tensor(np.random.randn(n).astype(np.float32), device="mps")
c = eas.empty_like(a)

add_kernel(a, b, c, n, BLOCK=256)
out = c.numpy()
assert c.device == "mps" and np.array_equal(out, a.numpy() + b.numpy())
print(add_kernel.to_msl(a, b, c, n, BLOCK=256).count("kernel void add_kernel("))
"""


@pytest.mark.parametrize("where", ["mps", "auto"])
def test_device_tensors(tmp_path, where):
    path = tmp_path / "device_tensors.py"
    path.write_text(DEVICE_TENSORS, encoding="utf-8")
    done = python(str(path), EAS_BACKEND=where)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "software")
    monkeypatch.setenv("EAS_BACKEND", "mps")
    return pytest.importorskip("torch")


def test_torch_tensors_go_to_metal_and_back(torch):
    import eas

    a = torch.randn(1024, device="cpu", dtype=torch.float32)
    a_e = eas.tensor(a, device="cpu")
    b_e = a_e.to("mps")
    assert (a_e.device, b_e.device) == ("cpu", "mps")
    assert a_e.numpy().ctypes.data == a.data_ptr(), "no copy on the CPU"
    assert np.array_equal(b_e.numpy(), a.numpy())


def test_to_torch_is_refused_where_torch_has_no_mps(torch):
    import eas

    if torch.backends.mps.is_available():
        pytest.skip("this torch has MPS")
    with pytest.raises(eas.BackendUnavailable, match="needs a torch with MPS, which this one is without") as caught:
        eas.ones(3, device="mps").to_torch("mps")
    assert "x.to_torch()" in caught.value.hint


def test_dlpack_of_the_readme(torch):
    import eas

    x = torch.randn(1024, device="cpu", dtype=torch.float32)
    y = eas.from_dlpack(x)
    assert y.numpy().ctypes.data == x.data_ptr()
    assert type(eas.to_dlpack(y)).__name__ == "PyCapsule"
