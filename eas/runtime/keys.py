"""What the caches are asked by: tuples of named fields, of which each makes another entry.

`tests/unit/test_keys.py` has two situations for each field that differ in nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any, NamedTuple

from eas.base import config
from eas.base.errors import SourcePlace
from eas.base.facts import Fact
from eas.runtime.launch_settings import setting_now

# --- on disk --------------------------------------------------------------------------------------


class MachineKey(NamedTuple):
    """Everything outside of a kernel that its code depends on."""

    format: str
    version: str
    sources: str
    """`source_stamp`: of eas' own files."""
    python: str
    numpy: str
    llvm: str
    cpu: str


class KernelKey(NamedTuple):
    """A kernel for some argument types."""

    machine: MachineKey
    math: str
    num_warps: int | None
    arguments: tuple[str, ...]
    """Types of runtime arguments, values of trace-time ones."""
    code: tuple[str, ...]
    """The functions, and what they read; see `frontend/reads/code_key.py`."""


class VariantKey(NamedTuple):
    """The code of a kernel that relies on launch facts, made under some settings."""

    kernel: str
    facts: tuple[str, ...]
    noopt: bool
    check_bounds: bool
    without: tuple[str, ...]
    """Steps that were left out."""
    target: str
    """What the code generator was told of the CPU."""


class FileKey(NamedTuple):
    """A source file of which kernels were compiled."""

    machine: MachineKey
    filename: str


class ObjectKey(NamedTuple):
    """The object file of an LLVM text."""

    format: str
    version: str
    llvm: str
    cpu: str
    target: str
    pipeline: str
    text: str


class TuningKey(NamedTuple):
    """Which config of a kernel was the fastest."""

    version: str
    machine: tuple[str, ...]
    cpu: str
    backend: str
    noopt: bool
    check_bounds: bool
    named: str
    """What counts of the arguments."""
    trials: tuple[str, ...]
    """The configs, with the traced code of each, which tells the math mode."""


def disk_key(key: tuple[Any, ...]) -> str:
    """The text by which the disk cache knows a key; different for keys that differ in a field."""
    text = repr((type(key).__name__, *key))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- in memory ------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """What the environment says of the code to be made."""

    noopt: bool
    check_bounds: bool
    cpu: str
    """`EAS_CPU`, the level that code is made for."""
    without: tuple[str, ...] = ()
    """`EAS_WITHOUT`, the steps that are left out."""


def settings_now() -> Settings:
    """The settings of a launch that begins now."""
    return Settings(setting_now(config.noopt), setting_now(config.check_bounds), setting_now(config.cpu), setting_now(config.without))


class Form(NamedTuple):
    """Which code of a compiled kernel: the launch facts that it relies on, and the settings."""

    facts: frozenset[Fact]
    settings: Settings


class CallKey(NamedTuple):
    """Launches that share a compiled kernel."""

    receiver: Hashable
    """What a method is bound to."""
    arguments: tuple[Hashable, ...]
    """Types of runtime arguments, values of trace-time ones."""


class TuningKind(NamedTuple):
    """Launches that share the choice of a config."""

    backend: str
    settings: Settings
    num_warps: int | None
    types: CallKey
    named: tuple[Hashable, ...]


class MetalKey(NamedTuple):
    """A Metal text as the software Metal compiles it."""

    text: str
    name: str
    language: str
    math_mode: str
    sanitize: bool
    lines: tuple[SourcePlace | None, ...]
    """The kernel lines that errors name."""
