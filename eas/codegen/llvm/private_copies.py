"""Buffers that a kernel only changes by atomics: each run of programs adds up in a copy, then into the buffer."""

from __future__ import annotations

from collections.abc import Sequence

from eas.base.dtypes import DType
from eas.codegen.llvm.atomics import atomic_step
from eas.codegen.llvm.counted_loops import Loops, number
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.text import Reg, Text, bits_of, memory_type

PrivateBuffer = tuple[int, str, int]  # argument, what its atomics do, elements that a program changes


def choose_copies(emitter: LlvmEmitter, symbol: str, private: Sequence[PrivateBuffer]) -> str:
    """The entry of a kernel of two functions, `shared` and `private`: the second where copies are small and pay."""
    return _Copies(emitter, private).function(symbol, emitter.t)


class _Copies(Loops):
    def __init__(self, emitter: LlvmEmitter, private: Sequence[PrivateBuffer]) -> None:
        super().__init__()
        self.args, self.private, self.scratch_nbytes = emitter.module.args, private, emitter.scratch_nbytes
        self.copy_nbytes = emitter.target.copy_nbytes

    def function(self, symbol: str, module: Text) -> str:
        t = self.t
        words = 2 * len(self.args) + 5
        frame = t.let(f"alloca [{words} x i64], align 8", "ptr", 1, "frame")
        programs = t.let("sub i64 %end, %begin", "i64", 1)
        pays, sizes = Reg("true", "i1"), []
        for index, _, elements in self.private:
            size = t.let(f"load i64, {self._word(Reg('%args', 'ptr'), len(self.args) + 5 + index)}", "i64", 1)
            room = number(self.copy_nbytes // self._dtype(index).nbytes)
            changes = t.op("mul", programs, number(elements))
            pays = t.op("and", pays, t.compare("icmp sle", size, self.less(room, changes)))
            sizes.append(size)

        def copies() -> None:
            t.declare("@llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)")
            t.line(f"call void @llvm.memcpy.p0.p0.i64({frame}, ptr %args, i64 {8 * words}, i1 false)")
            places = [self._open(i, frame, size) for i, size in enumerate(sizes)]
            t.line(f"call void @private({frame}, i64 %begin, i64 %end, ptr %scratch)")
            for i, (copy, size) in enumerate(zip(places, sizes, strict=True)):
                self._close(i, copy, size)

        self.when(pays, copies, lambda: t.line("call void @shared(ptr %args, i64 %begin, i64 %end, ptr %scratch)"))
        t.line("ret void")
        module.declare_all(t.declarations)
        head = f"define void @{symbol}(ptr noalias %args, i64 %begin, i64 %end, ptr noalias align 64 %scratch) nounwind {{\nentry:"
        return "\n".join([head, *t.lines, "}"])

    def _word(self, base: Reg, i: int) -> Reg:
        return self.at(base, number(i), "i64")

    def _dtype(self, index: int) -> DType:
        return self.args[index].type.dtype

    def _open(self, i: int, frame: Reg, size: Reg) -> Reg:
        """A copy in which nothing has happened, in place of the buffer."""
        index, kind, _ = self.private[i]
        element, nothing = memory_type(self._dtype(index)), self._nothing(index, kind)
        copy = self.at(Reg("%scratch", "ptr"), number(self.scratch_nbytes + i * self.copy_nbytes), "i8")

        def clear(at: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            self.t.line(f"store {nothing}, {self.at(copy, at, element)}")
            return ()

        self.loop("clear", number(0), size, number(1), (), clear)
        self.t.line(f"store {copy}, {self._word(frame, index)}")
        return copy

    def _close(self, i: int, copy: Reg, size: Reg) -> None:
        """Do to the buffer what was done to the copy."""
        t, (index, kind, _) = self.t, self.private[i]
        dtype = self._dtype(index)
        element, nothing = memory_type(dtype), self._nothing(index, kind)
        word = f"i{bits_of(element)}"
        buffer = t.let(f"load ptr, {self._word(Reg('%args', 'ptr'), index)}", "ptr", 1)

        def merge(at: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            found = t.let(f"load {element}, {self.at(copy, at, element)}", element, 1)
            bits = [t.let(f"bitcast {r} to {word}", word, 1) for r in (found, nothing)]

            def change() -> None:
                atomic_step(t, kind, self.args[index].type, self.at(buffer, at, element), [found])

            self.when(t.compare("icmp ne", *bits), change, lambda: None)
            return ()

        self.loop("merge", number(0), size, number(1), (), merge)

    def _nothing(self, index: int, kind: str) -> Reg:
        """What changes no value: a sum starts from -0.0, which leaves either zero as it is."""
        dtype = self._dtype(index)
        largest, smallest = (float("inf"), float("-inf")) if dtype.is_float else (dtype.max, dtype.min)
        value = {"add": -0.0 if dtype.is_float else 0, "max": smallest, "min": largest, "and": -1, "or": 0, "xor": 0}[kind]
        return self.t.number(value, memory_type(dtype))
