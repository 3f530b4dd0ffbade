"""One kernel function while its LLVM text is written: the state and the questions of every spelling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eas.base.dtypes import DType
from eas.codegen.llvm.first_lanes import FirstLanes
from eas.codegen.llvm.text import Reg, Text
from eas.ir import Inst, IRModule, Loc, Region, Value
from eas.schedule.target import CpuTarget

_MOST_RUNGS = 512  # lanes of a kernel that have a branch of their own


@dataclass(frozen=True)
class LogFormat:
    """What a record of `device_print` holds."""

    prefix: str
    dtypes: tuple[DType, ...]
    shapes: tuple[tuple[int, ...], ...]


class LlvmEmitter(ABC):
    """One kernel function. `regs` maps IR values; a value is a vector where it varies over lanes.

    Spellings get it; `generate`, which knows all of them, makes the whole of it.
    """

    def __init__(self, module: IRModule, target: CpuTarget, check_bounds: bool) -> None:
        self.module = module
        self.target = target
        self.check_bounds = check_bounds
        self.bases: dict[Value, int] = {
            a.value: i for i, a in enumerate(module.args) if a.is_buffer
        }
        self.shared: list[Inst] = []  # allocations of threadgroup memory: their numbers come after those of the arguments
        self.logs: list[LogFormat] = []
        self.private: set[int] = set()  # buffers that this thread has a copy of, for its atomics alone
        self.uses_streams = False
        self.num_rungs = 0  # of ladders
        self.t = Text(target.has_f16)
        self.regs: dict[Value, Reg] = {}
        self.lanes = 1
        self.scratch_nbytes = 0
        self.places: list[tuple[str, Loc | None]] = []
        self.slots: dict[str, str] = {}  # the addresses of scratch memory, by their names
        self.given: dict[Value, Reg] = {}  # numbers that are parameters of the function of a repeated loop
        self.first_lanes = FirstLanes()

    @abstractmethod
    def region(self, region: Region) -> list[Reg]:
        """Emit a region; returns what it yields."""

    @abstractmethod
    def inst(self, inst: Inst) -> None:
        """Emit an instruction; its results are in `regs`."""

    def place(self, message: str, loc: Loc | None) -> int:
        """The number under which an error at this instruction is reported."""
        self.places.append((message, loc))
        return len(self.places) - 1

    def log_place(self, inst: Inst) -> int:
        """The number of a `device_print`, under which the host finds its format."""
        self.logs.append(LogFormat(inst["prefix"], inst["dtypes"], inst["shapes"]))
        return len(self.logs) - 1

    def _allocation(self, index: int) -> Inst | None:
        """The threadgroup memory that a number of a buffer stands for."""
        return self.shared[index - len(self.module.args)] if index >= len(self.module.args) else None

    def buffer(self, index: int) -> Reg:
        own = self._allocation(index)
        return self.regs[self.module.args[index].value if own is None else own.out]

    def buffer_name(self, index: int) -> str:
        own = self._allocation(index)
        return self.module.args[index].name if own is None else own["name"]

    def buffer_size(self, index: int) -> Reg:
        """Elements of a buffer; of arguments the host passes them behind everything else."""
        own = self._allocation(index)
        if own is not None:
            return self.t.number(own["size"], "i64")
        at = self.t.let(
            f"getelementptr i64, ptr %args, i64 {len(self.module.args) + 5 + index}", "ptr", 1
        )
        return self.t.let(f"load i64, {at}", "i64", 1)

    def ladder(self, symbol: str, operands: Sequence[Reg], body: Callable[..., Reg | None], result: Reg | None = None) -> Reg | None:
        """Write a branch per lane here, or call a function that has them: LLVM takes long for thousands of branches."""
        self.num_rungs += max(r.lanes for r in operands)
        return body(*operands) if self.num_rungs <= _MOST_RUNGS else self.t.call_helper(symbol, operands, body, result)

    def same_bases(self, inits: Sequence[Value], *others: Sequence[Value]) -> None:
        """A carried pointer stays in the buffer it started in."""
        for values in others:
            for init, value in zip(inits, values, strict=True):
                if init in self.bases:
                    self.bases[value] = self.bases[init]
