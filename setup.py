"""On a Mac with an Apple GPU `pip install` builds the Metal runtime; everywhere else the package is plain Python."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import build_metal_ext


class BuildMetal(build_ext):
    """Builds `eas._metal` with the command that tools/build_metal_ext.py knows."""

    def build_extension(self, ext: Extension) -> None:
        why = build_metal_ext.why_not()
        if why is not None:
            raise SystemExit(f"easy-as: {why}")
        if build_metal_ext.build(Path(self.get_ext_fullpath(ext.name))):
            raise SystemExit("easy-as: eas._metal does not compile; the messages of clang++ are above")


def options() -> dict[str, Any]:
    """What pyproject.toml cannot say: examples/ as eas.examples, and an extension on Apple GPUs, in a wheel for every Python from 3.11 on."""
    packages = {"packages": [*find_packages(include=["eas", "eas.*"]), "eas.examples"], "package_dir": {"eas.examples": "examples"}}
    if sys.platform != "darwin" or platform.machine() != "arm64":
        return packages
    os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", build_metal_ext.MACOS)
    return packages | {
        "ext_modules": [Extension("eas._metal", sources=[], py_limited_api=True)],
        "cmdclass": {"build_ext": BuildMetal},
        "options": {"bdist_wheel": {"py_limited_api": build_metal_ext.FIRST_PYTHON}},
    }


if __name__ == "__main__":
    setup(**options())
