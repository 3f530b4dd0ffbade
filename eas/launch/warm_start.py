"""Kernels that an earlier process compiled, found again without tracing them.

The key of an entry is made of everything that tracing reads: the code of the kernel and of the functions it
can reach, the globals, closure cells and defaults that these name, argument types, trace-time values, eas'
own files, and the machine. It is computed anew in each process from what these are now, so an edited helper
or global is another key. A kernel that may read anything else (a file, the environment, an object of a class
that we do not know) has no key and is traced in every process.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eas._version import __version__
from eas.base import dtypes
from eas.base.errors import EasError, SourcePlace
from eas.base.facts import Fact
from eas.base.loading import load
from eas.base.types import Space, Type
from eas.frontend.constexpr import Static
from eas.frontend.reads.code_key import NotKeyed, Walk
from eas.frontend.reads.globals_read import Dependencies
from eas.launch.summary import ArgType, Summary
from eas.runtime import keys
from eas.runtime.disk_cache import default_cache
from eas.runtime.grid import GridInfo
from eas.runtime.native import jit
from eas.runtime.native.host_cpu import host_cpu
from eas.runtime.source_stamp import source_stamp
from eas.schedule.target import CpuTarget

if TYPE_CHECKING:
    from eas.codegen.llvm.generate import NativeCode

_FORMAT = "kernel-1"
_LIBRARY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
_UNREADABLE = (ValueError, TypeError, EOFError, IndexError, AttributeError, EasError)
"""What comes of an entry that is not ours: it is no entry."""
Frame = tuple[str, int, int, int]


class Identity(NamedTuple):
    """A kernel for some argument types, as the disk cache knows it."""

    key: str
    filename: str
    dependencies: Dependencies
    """What the key was made from."""

    def covers(self, traced: Dependencies) -> bool:
        """Whether tracing read nothing but what the key was made from, and none of it has changed since."""
        return self.dependencies.includes(traced) and self.dependencies.is_current()


def identify(fn: Callable[..., Any], arguments: Mapping[str, Type | Static], math: str, num_warps: int | None = None) -> Identity | None:
    """The identity of a kernel, or None if it may depend on what a key cannot hold."""
    if type(fn) is not FunctionType or default_cache().root is None:
        return None
    walk = Walk()
    try:
        function = walk.value(fn)
        given = tuple(f"{name}={_argument(walk, value)}" for name, value in arguments.items())
        code = (function, *walk.everything())
    except NotKeyed:
        return None
    key = keys.disk_key(keys.KernelKey(_machine(host_cpu().fingerprint), math, num_warps, given, code))
    return Identity(key, fn.__code__.co_filename, walk.dependencies)


def identify_built(name: str, structure: str, filename: str) -> Identity | None:
    """The identity of a kernel whose IR eas builds itself: its structure says all."""
    if default_cache().root is None:
        return None
    key = keys.disk_key(keys.KernelKey(_machine(host_cpu().fingerprint), "safe", None, (name,), (structure,)))
    return Identity(key, filename, Dependencies())


def _argument(walk: Walk, given: Type | Static) -> str:
    if not isinstance(given, Static):
        return str(given)
    walk.dependencies.add_value(given.value)
    return walk.value(given.value)


def find(identity: Identity) -> Summary | None:
    """What an earlier process knew of this kernel."""
    data = default_cache().get(_summary_key(identity))
    with contextlib.suppress(*_UNREADABLE):
        return None if data is None else _unpack_summary(data)
    return None


class StoredCode:
    """Native code of an earlier process; stands for `codegen.llvm.NativeCode`, less its text."""

    logs: tuple[Any, ...] = ()
    llvm, target = "", None

    def __init__(self, blob: bytes, record: tuple[Any, ...]) -> None:
        self.object = blob
        """The object file."""
        self.entry: str = record[1]
        self.scratch_nbytes: int = record[2]
        self.places: list[tuple[str, SourcePlace | None]] = [(text, StoredPlace(frames) if frames else None) for text, frames in record[3]]
        self.nbytes_per_program: int | None = record[4]
        self.flops_per_program: int | None = record[5]
        self.work_per_program: int | None = record[6]


class StoredPlace:
    """A kernel line, found when somebody shows it."""

    __slots__ = ("frames",)

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.frames = frames

    def describe(self) -> Sequence[str]:
        load("eas.ir")
        from eas.ir import describe_frames

        return describe_frames(self.frames)


def find_native(identity: Identity, form: keys.Form, target: CpuTarget) -> StoredCode | None:
    """The code of an earlier process for a variant."""
    cache = default_cache()
    data = cache.get(_variant_key(identity, form, target))
    if data is None:
        return None
    with contextlib.suppress(*_UNREADABLE):
        record = marshal.loads(data)
        blob = cache.get(record[0])
        return None if blob is None else StoredCode(blob, record)
    return None


def remember(identity: Identity, summary: Summary, form: keys.Form, target: CpuTarget, native: NativeCode) -> None:
    """Let later processes find this code; what prints is told to the host, which needs its trace."""
    if native.logs:
        return
    cache = default_cache()
    object_key = jit.object_key(native.llvm, "plain" if form.settings.noopt else jit.DEFAULT_PIPELINE, target)
    places = [(text, None if loc is None else loc.decoded()) for text, loc in native.places]
    record = (object_key, native.entry, native.scratch_nbytes, places, native.nbytes_per_program, native.flops_per_program, native.work_per_program)
    cache.put(_variant_key(identity, form, target), marshal.dumps(record))
    cache.put(_summary_key(identity), _pack_summary(summary))
    if identity.filename not in _known_files:
        _known_files.add(identity.filename)
        cache.put(_file_key(identity.filename), b"")


_known_files: set[str] = set()


def knows_file(filename: str) -> bool:
    """Whether kernels of this source file were compiled before, so that they probably need not be now."""
    return default_cache().get(_file_key(filename)) is not None


# --- keys -----------------------------------------------------------------------------------------


@functools.cache
def _machine(cpu: str) -> keys.MachineKey:
    return keys.MachineKey(_FORMAT, __version__, source_stamp(), sys.version, np.__version__, jit.llvm_version(), cpu)


def _file_key(filename: str) -> str:
    # Whoever uses one kernel of our library imports them all, and most are never called.
    folder = os.path.dirname(filename)
    return "file " + keys.disk_key(keys.FileKey(_machine(host_cpu().fingerprint), folder if folder == _LIBRARY else filename))


def _summary_key(identity: Identity) -> str:
    return f"summary {identity.key}"


def _variant_key(identity: Identity, form: keys.Form, target: CpuTarget) -> str:
    facts = tuple(sorted(map(str, form.facts)))
    return "native " + keys.disk_key(keys.VariantKey(identity.key, facts, form.settings.noopt, form.settings.check_bounds, form.settings.without, str(target)))


# --- summaries ------------------------------------------------------------------------------------


def _pack_summary(summary: Summary) -> bytes:
    grid = summary.grid_info
    args = [(a.name, a.type.dtype.name, a.type.space.value, a.attrs) for a in summary.args]
    facts = [(f.kind, f.arg) for f in summary.facts]
    extents = (grid.launch_mode, sorted(grid.axes), grid.block_sizes, sorted(grid.num_programs_axes), grid.more_threads)
    return marshal.dumps((summary.name, args, summary.writes, summary.reads, extents, facts, summary.threads))


def _unpack_summary(data: bytes) -> Summary:
    name, packed, writes, reads, (mode, axes, blocks, counted, more), facts, threads = marshal.loads(data)
    args = tuple(ArgType(n, Type(dtypes.parse(dtype), (), Space(space)), tuple(attrs)) for n, dtype, space, attrs in packed)
    grid = GridInfo(name, mode, frozenset(axes), tuple(blocks), frozenset(counted), tuple(more))
    return Summary(name, args, tuple(writes), tuple(reads), grid, tuple(Fact(kind, arg) for kind, arg in facts), threads)
