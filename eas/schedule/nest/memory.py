"""What the members of an open nest touch, such that one more instruction is compared with few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from eas.analysis import touches_memory, with_inner
from eas.ir import Arg, Inst, Trait, Value

_May = Callable[[Value, Value], bool]


@dataclass(eq=False)
class _Pointers:
    """Addresses by the buffer that they point into, and by what was added to it."""

    by_base: dict[Arg | Value, dict[Value, None]] = field(default_factory=dict)
    by_offset: dict[tuple[Arg | Value, Value], list[Value]] = field(default_factory=dict)

    def add(self, pointer: Value, base: Arg | Value, offset: Value | None) -> None:
        known = self.by_base.setdefault(base, {})
        if pointer not in known and offset is not None:
            self.by_offset.setdefault((base, offset), []).append(pointer)
        known[pointer] = None

    def like(self, base: Arg | Value, offset: Value | None) -> Iterator[Value]:
        """One address of every kind whose answers may differ: of the same buffer, or with the same offset, or neither."""
        for other, pointers in self.by_base.items():
            same = self.by_offset.get((other, offset), []) if offset is not None and other is not base else []
            yield from same
            # Of the same buffer one of two is another one than the one that is asked about.
            yield from islice((p for p in pointers if p not in same), 2)


class NestMemory:
    """The accesses of the members of a nest."""

    def __init__(self, base_of: Callable[[Value], Arg | Value], offset_of: Callable[[Value], Value | None]) -> None:
        self._base_of, self._offset_of = base_of, offset_of
        self._read, self._written = _Pointers(), _Pointers()
        self._has_order = self._has_atomics = self._has_accesses = False

    def add(self, member: Inst) -> None:
        for inst in with_inner(member):
            self._has_order |= inst.op.has(Trait.ORDERED)
            self._has_atomics |= inst.op.has(Trait.ATOMIC)
            if touches_memory(inst):
                self._has_accesses = True
                kind = self._written if inst.op.has(Trait.WRITES) else self._read
                for pointer in _pointers(inst):
                    kind.add(pointer, self._base_of(pointer), self._offset_of(pointer))

    def conflicts(self, later: Inst, may_meet: _May) -> bool:
        """Whether the order of an instruction and one of the members matters, with all that is in them."""
        return any(self._conflicts(inst, may_meet) for inst in with_inner(later))

    def _conflicts(self, inst: Inst, may_meet: _May) -> bool:
        if inst.op.has(Trait.ORDERED) and self._has_order:
            return True
        if inst.op.has(Trait.ATOMIC) and self._has_atomics:
            return True
        if inst.op.name == "fence":
            return self._has_accesses
        if not touches_memory(inst):
            return False
        kinds = (self._written, self._read) if inst.op.has(Trait.WRITES) else (self._written,)
        return any(
            may_meet(p, q)
            for p in _pointers(inst)
            for kind in kinds
            for q in kind.like(self._base_of(p), self._offset_of(p))
        )


def _pointers(inst: Inst) -> list[Value]:
    return [v for v in inst.operands if v.type.is_pointer]


__all__ = ["NestMemory"]
