"""The mark of tests that need the Metal extension, built against the fake Metal."""

from __future__ import annotations

import importlib.util
import sys

import pytest

NEEDS_EXTENSION = pytest.mark.skipif(
    importlib.util.find_spec("eas._metal") is None or sys.platform != "linux",
    reason="eas._metal is not built here: EAS_METAL=software python tools/build_metal_ext.py",
)
