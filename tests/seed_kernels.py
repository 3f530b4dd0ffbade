"""What the tests of the user's documents share: arguments, backends, fresh processes. Needs no pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np

import eas

ROOT = Path(__file__).resolve().parent.parent
WHY_NO_METAL = eas.runtime.get_runtime("mps").why_unavailable()


def backend(name: str):
    return mock.patch.dict(os.environ, {"EAS_BACKEND": name})


def python(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A fresh Python in the repository."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([sys.executable, *args], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)


def operands(n: int = 1024 + 7):
    a = np.random.randn(n).astype(np.float32)
    b = np.random.randn(n).astype(np.float32)
    return a, b, np.zeros_like(a)
