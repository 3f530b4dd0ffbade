"""`triton.backends`: one backend, the targets of eas, under the names of devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eas.triton.backends.compiler import BaseBackend
from eas.triton.backends.driver import DriverBase


@dataclass(frozen=True)
class Backend:
    """A compiler and its driver."""

    compiler: type[Any]
    driver: type[Any]


backends: dict[str, Backend] = {"cpu": Backend(BaseBackend, DriverBase)}
