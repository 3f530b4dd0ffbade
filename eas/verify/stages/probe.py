"""Stage "probe": what the installed torch can do on a Metal device, in the order in which it is safe to ask."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from eas.verify.events import Recorder

Row = tuple[str, str]


def import_torch() -> ModuleType | str:
    """The module, or why there is none."""
    if importlib.util.find_spec("torch") is None:
        return "not installed; pip install 'easy-as[torch]'"
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError) as error:  # a broken installation fails to load its libraries
        return f"installed, but import fails: {error}"


def rows() -> list[Row]:
    """Version, MPS, a tensor there, its DLPack capsule: the questions that choose a layer of torch integration."""
    torch = import_torch()
    if isinstance(torch, str):
        return [("torch", torch)]
    found = [("torch", str(torch.__version__)), ("mps built", _yes(torch.backends.mps.is_built())), ("mps available", _yes(torch.backends.mps.is_available()))]
    found.append(("compile_shader", _yes(hasattr(torch.mps, "compile_shader")) + ("" if hasattr(torch.mps, "compile_shader") else "; torch 2.7 or newer has it")))
    return found + (_on_mps(torch) if torch.backends.mps.is_available() else [])


def _on_mps(torch: Any) -> list[Row]:
    x = torch.randn(16, device="mps", dtype=torch.float32)
    found = [("tensor", f"{x.device}, {x.dtype}"), ("has __dlpack__", _yes(hasattr(x, "__dlpack__")))]
    try:
        capsule = importlib.import_module("torch.utils.dlpack").to_dlpack(x)
        found.append(("to_dlpack(mps)", f"ok: {type(capsule).__name__}"))
    except Exception as error:  # whatever torch raises is the answer
        found.append(("to_dlpack(mps)", f"failed: {type(error).__name__}: {error}"))
    return found


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def run(record: Recorder, _: str) -> None:
    """The probe; only a torch that is there and does not work is wrong."""
    for name, value in rows():
        record.fact(f"torch.{name}", value)
        if "fails: " in value:
            record.failed(name, value)
        elif value.startswith("not installed"):
            record.skipped(name, value)
        else:
            record.passed(name, value)
