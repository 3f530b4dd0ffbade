"""The IR: immutable, typed SSA with regions (`inst`, `module`), as text (`text`), and the loop that rewrites it (`rewriting`)."""

from eas.base.dtypes import DType
from eas.ir.inst import (
    Arg,
    AttrItems,
    Inst,
    Loc,
    Region,
    Value,
    describe_frames,
    make,
    sorted_attrs,
    walk,
)
from eas.ir.module import IRModule, LaunchMode, verify
from eas.ops import Trait

__all__ = ["Arg", "AttrItems", "DType", "IRModule", "Inst", "LaunchMode", "Loc", "Region", "Trait", "Value", "describe_frames", "make", "sorted_attrs", "verify", "walk"]
