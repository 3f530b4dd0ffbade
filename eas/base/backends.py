"""The manifest of backends: one row for each way to run kernels, read by everything that lists or tells apart their names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backend:
    """One row; the module is imported when somebody asks for the runtime."""

    name: str
    runtime: str  # "module:Class"
    doc: str
    is_host: bool  # kernels work on NumPy memory as it is
    target: str = ""
    """The language of what it runs: "llvm", "msl" or another one; empty for the reference, which runs the IR."""


BACKENDS: tuple[Backend, ...] = (  # `auto` takes the first host backend that is available
    Backend("cpu", "eas.runtime.cpu:CpuRuntime", "native code for this CPU", is_host=True, target="llvm"),
    Backend("mps", "eas.runtime.metal:MetalRuntime", "Apple GPUs", is_host=False, target="msl"),
    Backend("interp", "eas.runtime.interp:InterpRuntime", "the NumPy reference, every access checked", is_host=True),
    Backend("sim", "eas.runtime.sim:SimRuntime", "the Metal text on a software Metal", is_host=False, target="msl"),
)
ALIASES = {"metal": "mps"}


def row_of(name: str) -> Backend | None:
    """The row of a name or its alias; none for `auto`."""
    name = ALIASES.get(name, name)
    return next((row for row in BACKENDS if row.name == name), None)


def names() -> tuple[str, ...]:
    """All that `EAS_BACKEND` may say."""
    also = {name: alias for alias, name in ALIASES.items()}
    return ("auto", *(word for row in BACKENDS for word in (row.name, also.get(row.name)) if word))


def runs_metal(name: str) -> bool:
    """Whether the backend of this name runs Metal text."""
    row = row_of(name)
    return row is not None and row.target == "msl"


def keeps_code(name: str) -> bool:
    """Whether a launch there may run native code of an earlier process."""
    return name in ("auto", "cpu")
