"""What a kernel becomes for a CPU that is the same wherever the tests run."""

from __future__ import annotations

import contextlib

import eas
from eas.base.errors import InvalidSetting
from eas.codegen.llvm.generate import generate
from eas.ir import IRModule
from eas.runtime.native.host_cpu import host_cpu
from eas.runtime.native.host_target import target_of
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, LEVELS, Caches, CpuTarget


def possible_levels() -> dict[str, CpuTarget]:
    """The values of EAS_CPU that this machine can run; `native`, which has all that it can do, is the last."""
    found = {}
    for level in (*LEVELS, "native"):
        with contextlib.suppress(InvalidSetting):
            found[level] = target_of(host_cpu(), level, Caches())
    return found


def scheduled(kernel: eas.Kernel, *args, facts=("disjoint",), target: CpuTarget = AVX2, **meta) -> IRModule:
    """The loops of a launch of which those facts hold."""
    compiled = kernel.compile(*args, **meta)
    known = frozenset(f for f in compiled.facts if str(f) in facts)
    return schedule(compiled.variant(known).module, target)


def llvm_text(kernel: eas.Kernel, *args, facts=("disjoint",), target: CpuTarget = AVX2, **meta) -> str:
    return generate(scheduled(kernel, *args, facts=facts, target=target, **meta), target).llvm
