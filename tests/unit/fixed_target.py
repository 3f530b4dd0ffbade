"""What a kernel becomes for a CPU that is the same wherever the tests run."""

from __future__ import annotations

import eas
from eas.codegen.llvm import generate
from eas.ir import IRModule
from eas.schedule.cpu import schedule
from eas.schedule.target import AVX2, CpuTarget


def scheduled(kernel: eas.Kernel, *args, facts=("disjoint",), target: CpuTarget = AVX2, **meta) -> IRModule:
    """The loops of a launch of which those facts hold."""
    compiled = kernel.compile(*args, **meta)
    known = frozenset(f for f in compiled.facts if str(f) in facts)
    return schedule(compiled.variant(known).module, target)


def llvm_text(kernel: eas.Kernel, *args, facts=("disjoint",), target: CpuTarget = AVX2, **meta) -> str:
    return generate(scheduled(kernel, *args, facts=facts, target=target, **meta), target).llvm
