"""The IR: immutable, typed SSA with regions (`module`), as text (`text`), and the loop that rewrites it (`rewriting`)."""

from eas.base.dtypes import DType
from eas.ir.module import (
    Arg,
    AttrItems,
    Inst,
    IRModule,
    LaunchMode,
    Loc,
    Region,
    Value,
    describe_frames,
    make,
    sorted_attrs,
    verify,
    walk,
)
from eas.ops import Trait

__all__ = ["Arg", "AttrItems", "DType", "IRModule", "Inst", "LaunchMode", "Loc", "Region", "Trait", "Value", "describe_frames", "make", "sorted_attrs", "verify", "walk"]
