"""Launches on another backend for a while."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def backend(name: str) -> Iterator[None]:
    """`EAS_BACKEND` is `name` inside."""
    before = os.environ.get("EAS_BACKEND")
    os.environ["EAS_BACKEND"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["EAS_BACKEND"]
        else:
            os.environ["EAS_BACKEND"] = before
