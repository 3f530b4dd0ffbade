"""The op table: what a row knows about an operation, and how rows are found and evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import cached_property
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import InvalidIR
from eas.base.types import Type
from eas.ops.machine import Machine, Pointer


class Trait(Flag):
    """Facts that passes and targets ask for instead of comparing op names."""

    NONE = 0
    PURE = auto()  # no memory, no effect: may be merged, moved, folded, dropped
    ELEMENTWISE = auto()  # lane i of the result needs only lane i of the operands
    COMMUTATIVE = auto()  # the first two operands may be swapped
    READS = auto()  # reads memory through its first operand
    WRITES = auto()  # writes memory through its first operand
    ATOMIC = auto()  # reads and writes as one step
    EFFECT = auto()  # visible outside of memory: print, assert, assume, barrier
    CONVERGENT = auto()  # lanes meet here: needs uniform control
    FENCE = auto()  # accesses to memory stay on their side of it
    TERMINATOR = auto()  # ends a region
    SHAPE = auto()  # moves elements without looking at them; also takes pointers
    THREAD = auto()  # only in thread mode
    SCHEDULED = auto()  # only in scheduled IR
    CHEAP = auto()  # recompute rather than keep (index arithmetic, constants)
    PARTIAL = auto()  # fails for some operands: may not run where the program would not
    CONTROL = auto()  # runs its regions: a loop or branch of the program
    LOOP = auto()  # control flow that comes back
    HINT = auto()  # its operand, of which the author knows more
    COMPARE = auto()  # tells the order of two numbers
    DIVISION = auto()  # of numbers, its quotient or rest: runs of neighbours end at multiples of the divisor
    IDEMPOTENT = auto()  # x op x is x: nothing is counted twice
    CUT = auto()  # lanes exchange elements: lowered on its own, from operands in memory
    PRODUCT = auto()  # of matrices
    FOLD = auto()  # a member of a nest, its result known after the nest
    ORDERED = auto()  # stays in program order with others of its kind: messages, barriers
    ALLOCATES = auto()  # makes memory of the program's own
    ONE_BY_ONE = auto()  # Metal spells it for single elements only: no float4
    REGISTERS = auto()  # a function of many coefficients: fewer lanes at once


def _many(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(map(kind, value))


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": _is(bool), "int": _is(int), "str": _is(str), "number": _is(bool, int, float), "dtype": lambda value: isinstance(value, DType), "type": _is(Type),
    "ints": _many(_is(int)), "strs": _many(_is(str)), "dtypes": _many(lambda value: isinstance(value, DType)), "shapes": _many(_many(_is(int))), "texts": _many(_many(_is(str))),
}  # fmt: skip
"""What an attribute may hold, by the word for it in a row."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute that a row declares."""

    kind: str
    is_needed: bool


@dataclass(frozen=True, slots=True)
class RegionSig:
    """What a type rule sees of a region."""

    params: tuple[Type, ...]
    yields: tuple[Type, ...]


Attrs = Mapping[str, Any]
Rule = Callable[[Sequence[Type], Attrs, Sequence[RegionSig]], tuple[Type, ...]]
Combine = Callable[..., tuple[np.ndarray, ...]]


@dataclass(slots=True)
class Call:
    """Everything a NumPy reference may look at besides its operand arrays."""

    operands: tuple[Type, ...]
    outs: tuple[Type, ...]
    attrs: Attrs
    machine: Machine | None = None
    combine: Combine | None = None
    lanes: int = 1  # of the innermost loop over lanes

    @property
    def dtype(self) -> DType:
        """The dtype of the first operand."""
        return self.operands[0].dtype

    @property
    def out(self) -> Type:
        return self.outs[0]

    @property
    def world(self) -> Machine:
        """The machine, for ops that cannot be evaluated without one."""
        assert self.machine is not None, "this op needs a running program"
        return self.machine


Reference = Callable[..., Any]


@dataclass(frozen=True)
class Accuracy:
    """How far a backend may be from the reference, in units of the last place per float dtype."""

    ulps: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def is_exact(self) -> bool:
        return not self.ulps

    def bound(self, dtype: DType) -> float:
        """Allowed distance in ulp; f16 and bf16 are computed in f32 and rounded once."""
        return self.ulps.get(dtype.name, 0.0)

    def text(self, dtype: DType) -> str:
        bound = self.bound(dtype)
        return f"{bound:g} ulp" if bound else "exact"


EXACT = Accuracy()


@dataclass(frozen=True, eq=False)
class Op:
    """One row: name, operands, attributes, result rule, traits, NumPy reference, accuracy, doc."""

    name: str
    family: str
    operands: str
    rule: Rule
    doc: str
    traits: Trait = Trait.PURE
    reference: Reference | None = None
    attrs: str = ""  # "lanes: int, sure?: bool": names and kinds; those with a question mark may be absent, and read as None then
    accuracy: Accuracy = EXACT
    cost: int = 1  # of an element: about how many additions; 0: it only says or moves something
    regions: int = 0
    dtypes: tuple[DType, ...] = ()  # operand dtypes that the property tests go through

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_pure", Trait.PURE in self.traits)
        object.__setattr__(self, "_trait_bits", self.traits.value)

    is_pure: bool = field(init=False, default=False)
    _trait_bits: int = field(init=False, default=0)

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """The declared attributes by name."""
        parts = [part.split(": ") for part in self.attrs.split(", ")] if self.attrs else []
        assert all(kind in KINDS for _, kind in parts), f"{self.name}: an attribute of no known kind"
        return {name.rstrip("?"): Attribute(kind, not name.endswith("?")) for name, kind in parts}

    def check_attrs(self, attrs: Attrs) -> None:
        """Raise `InvalidIR` unless the attributes are those that the row declares."""
        for name, value in attrs.items():
            declared = self.attributes.get(name)
            if declared is None:
                raise InvalidIR(f"{self.name} declares no attribute {name!r}", hint=f"its row in eas/ops has {self.attrs or 'none'}")
            if not KINDS[declared.kind](value):
                raise InvalidIR(f"{self.name}: the attribute {name!r} is declared as {declared.kind}, got {value!r}")
        for name, declared in self.attributes.items():
            if declared.is_needed and name not in attrs:
                raise InvalidIR(f"{self.name} lacks its attribute {name!r}")

    def has(self, trait: Trait) -> bool:
        bits: int = trait._value_
        return self._trait_bits & bits == bits

    def __repr__(self) -> str:
        return f"Op({self.name})"


TABLE: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add a row; a second row of the same name is a bug."""
    assert op.name not in TABLE, f"op {op.name} has two rows"
    TABLE[op.name] = op
    return op


def evaluate(op: Op, call: Call, values: Sequence[Any]) -> tuple[Any, ...]:
    """Run the row's reference and round every float result to its own dtype, without warnings."""
    with np.errstate(all="ignore"):
        return apply(op, call, values)


def apply(op: Op, call: Call, values: Sequence[Any]) -> tuple[Any, ...]:
    """`evaluate` for a caller that has silenced NumPy once for many instructions."""
    assert op.reference is not None, f"op {op.name} has no reference"
    got = op.reference(call, *values)
    if got is None:
        assert not call.outs, f"op {op.name} gave no result"
        return ()
    if not isinstance(got, tuple):
        (out,) = call.outs
        return (_conform(got, out),)
    return tuple(_conform(x, t) for x, t in zip(got, call.outs, strict=True))


def _conform(x: Any, t: Type) -> Any:
    if isinstance(x, Pointer):
        return x
    x = np.asarray(x)
    if t.dtype is dtypes.bf16:
        x = numerics.round_to(x, t.dtype)
    x = x.astype(t.dtype.np_compute, copy=False)
    return x if x.shape == t.shape else np.broadcast_to(x, t.shape)
