"""The user's documents: device tensors, DLPack and torch; by unittest alone, torch only where it is."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import eas
from examples.add import add_kernel
from tests.seed_kernels import WHY_NO_METAL, backend, operands, python

HAS_TORCH = importlib.util.find_spec("torch") is not None
IS_SIM = eas.runtime.get_runtime().name == "sim"  # which lends device tensors its memory
_scratch = tempfile.TemporaryDirectory(prefix="eas-seeds-")
_own_cache = mock.patch.dict(os.environ, {"EAS_CACHE_DIR": _scratch.name})


def setUpModule() -> None:
    _own_cache.start()


def tearDownModule() -> None:
    _own_cache.stop()
    _scratch.cleanup()


def torch_mps_reason() -> str | None:
    """Why the torch(mps) snippets cannot run here, or None."""
    if WHY_NO_METAL:
        return WHY_NO_METAL
    if not HAS_TORCH:
        return "torch is not installed"
    import torch

    return None if torch.backends.mps.is_available() else "torch has no MPS here"


# Seed 003, "探测脚本", as written.
PROBE = '''
import torch

print("torch:", torch.__version__)
print("mps available:", torch.backends.mps.is_available())

if torch.backends.mps.is_available():
    x = torch.randn(16, device="mps", dtype=torch.float32)
    print("x.device:", x.device, "dtype:", x.dtype)
    print("has __dlpack__:", hasattr(x, "__dlpack__"))
    try:
        from torch.utils import dlpack
        cap = dlpack.to_dlpack(x)
        print("torch dlpack to_dlpack(mps) ok:", type(cap).__name__)
    except Exception as e:
        print("torch dlpack to_dlpack(mps) failed:", type(e).__name__, e)
'''


class Tensors(unittest.TestCase):
    def test_cpu_tensors_share_memory_and_are_arguments(self):
        a, b, _ = operands()
        ta, tb = eas.tensor(a, device="cpu"), eas.tensor(b, device="cpu")
        tc = eas.empty_like(ta)
        with backend("interp"):
            add_kernel(ta, tb, tc, a.size, BLOCK=256)
        np.testing.assert_array_equal(tc.numpy(), a + b)
        self.assertTrue(np.shares_memory(ta.numpy(), a))
        self.assertEqual((tc.device, tc.shape, str(tc.dtype)), ("cpu", (1031,), "f32"))

    def test_empty_and_to(self):
        x = eas.empty((3, 5), device="cpu")
        self.assertEqual((x.shape, str(x.dtype)), ((3, 5), "f32"))
        self.assertIs(x.to("cpu"), x)
        self.assertTrue(np.shares_memory(x.numpy(), x.to("cpu").numpy()))

    @unittest.skipUnless(WHY_NO_METAL and not IS_SIM, "Metal is available")
    def test_device_tensors_say_why_they_are_missing(self):
        a = np.zeros(4, np.float32)
        for device in ("mps", "metal"):
            with self.assertRaises(eas.BackendUnavailable):
                eas.tensor(a, device=device)
            with self.assertRaises(eas.BackendUnavailable):
                eas.tensor(a).to(device)

    @unittest.skipIf(WHY_NO_METAL, WHY_NO_METAL or "")
    def test_device_tensors_of_the_readme(self):
        n = 1 << 20
        host = [np.random.randn(n).astype(np.float32) for _ in range(2)]
        a, b = (eas.tensor(x, device="mps") for x in host)
        c = eas.empty_like(a)
        add_kernel(a, b, c, n, BLOCK=256)
        np.testing.assert_array_equal(c.numpy(), host[0] + host[1])
        self.assertEqual(c.to("cpu").device, "cpu")

    def test_dlpack_of_numpy(self):
        x = np.random.randn(1024).astype(np.float32)
        y = eas.from_dlpack(x)
        y.numpy()[0] = 7
        self.assertEqual(x[0], 7)
        self.assertEqual(y.__dlpack_device__(), (1, 0))
        self.assertTrue(np.shares_memory(np.from_dlpack(y), x))
        self.assertEqual(type(eas.to_dlpack(y)).__name__, "PyCapsule")


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Torch(unittest.TestCase):
    def test_cpu_tensors_are_zero_copy_both_ways(self):
        import torch

        a = torch.randn(1024, device="cpu", dtype=torch.float32)
        a_e = eas.tensor(a, device="cpu")
        a[0] = 7
        self.assertEqual(a_e[0].item(), 7)
        self.assertEqual(a_e.to_torch().data_ptr(), a.data_ptr())
        self.assertEqual(eas.to_torch(eas.from_torch(a)).data_ptr(), a.data_ptr())

    def test_dlpack_snippet(self):
        import torch
        from torch.utils import dlpack

        x = torch.randn(1024, device="cpu", dtype=torch.float32)
        y = eas.from_dlpack(x)
        z = eas.to_dlpack(y)
        back = dlpack.from_dlpack(z)
        self.assertEqual(back.data_ptr(), x.data_ptr())
        self.assertTrue(torch.equal(back, x))

    def test_torch_tensors_are_kernel_arguments(self):
        import torch

        a, b = torch.randn(2, 1031)
        c = torch.zeros(1031)
        with backend("interp"):
            add_kernel(a, b, c, 1031, BLOCK=256)
        self.assertTrue(torch.equal(c, a + b))

    @unittest.skipUnless(WHY_NO_METAL and not IS_SIM, "Metal is available")
    def test_upload_to_mps_says_why_not(self):
        import torch

        with self.assertRaises(eas.BackendUnavailable):
            eas.tensor(torch.zeros(4), device="cpu").to("mps")

    def test_mps_snippets(self):
        reason = torch_mps_reason()
        if reason:
            self.skipTest(reason)
        import torch

        b_e = eas.tensor(torch.randn(1024)).to("mps")
        self.assertEqual(b_e.device, "mps")
        x = torch.randn(1024, device="mps", dtype=torch.float32)
        x_e = eas.tensor(x, device="mps")
        t = x_e.to_torch("mps")
        self.assertEqual((t.device.type, t.data_ptr()), ("mps", x.data_ptr()))

    def test_probe_script_of_seed_003(self):
        done = python("-c", PROBE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"torch: \S+\nmps available: (True|False)\n")


if __name__ == "__main__":
    unittest.main()
