"""Lets `import triton` find `eas.triton`, in this process only."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from eas.base.errors import EasError

_OURS = "eas.triton"


class _Alias(Loader):
    """Gives the module of eas under Triton's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = importlib.import_module(self.name)
        self.spec = made.__spec__
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put that of the alias there


class _Finder(MetaPathFinder):
    """Finds `triton` and all modules in it in `eas.triton`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "triton":
            return None
        ours = f"eas.{fullname}"
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        spec = ModuleSpec(fullname, _Alias(ours), is_package=found.submodule_search_locations is not None)
        spec.origin = found.origin
        return spec


def is_installed() -> bool:
    """Whether `import triton` finds eas."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def install(*, replace: bool = False) -> None:
    """Let `import triton` find eas.triton from now on; a Triton that is there already is only replaced if told."""
    if is_installed():
        return
    loaded = sys.modules.get("triton")
    if not replace and (loaded is not None or importlib.util.find_spec("triton") is not None):
        raise EasError("there is a Triton already: " + str(getattr(loaded, "__file__", None) or "it can be imported"), hint="eas.triton.install(replace=True) lets `import triton` find eas in this process")
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("triton")
    importlib.import_module("triton.language")


def uninstall() -> None:
    """Forget `triton` again; modules that have imported it keep what they have."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [n for n, m in sys.modules.items() if n.partition(".")[0] == "triton" and getattr(m, "__name__", "").startswith(_OURS)]:
        del sys.modules[name]
