"""A software Metal: compiles Metal text as C++ and runs it with threadgroups, barriers and simdgroups."""

from __future__ import annotations

from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.library import Kernel, Library
from eas.metal_sim.reports import Finding

__all__ = ["Finding", "Kernel", "Library", "MetalSourceError"]
