"""The options that all examples share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

BACKENDS = ("auto", "cpu", "mps", "metal", "interp", "sim")


def parse(doc: str | None, **sizes: int) -> argparse.Namespace:
    """Sizes and the backend from the command line; the backend is set before any launch."""
    parser = argparse.ArgumentParser(description=doc)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--backend", choices=BACKENDS, help="default: EAS_BACKEND, else auto")
    options = parser.parse_args()
    if options.backend:
        os.environ["EAS_BACKEND"] = options.backend
    return options


def report(name: str, error: float, check: Callable[[], bool]) -> None:
    """Say how far the result is from NumPy's; end with status 1 if that is too far."""
    import eas

    verdict = "ok" if check() else "WRONG"
    print(f"{name}: largest error {error:.3g} against NumPy on {eas.runtime.get_runtime().name}: {verdict}")
    if verdict != "ok":
        raise SystemExit(1)
