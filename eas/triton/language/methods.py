"""What a traced value has under Triton's names: fields and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eas.frontend.block import Block
from eas.triton.language import creation, folding, math, memory
from eas.triton.language.types import block_type, dtype, of_eas, pointer_type


def dtype_of(x: Block) -> dtype:
    """The dtype of a value; of pointers a pointer type."""
    found = of_eas(x.dtype)
    return pointer_type(found) if x.type.is_pointer else found


def type_of(x: Block) -> dtype:
    """The dtype of a scalar, the block type of a block."""
    return block_type(dtype_of(x), x.type.shape) if x.type.shape else dtype_of(x)


FIELDS: dict[str, Callable[[Block], Any]] = {
    "dtype": dtype_of,
    "type": type_of,
    "shape": lambda x: x.type.shape,
    "numel": lambda x: x.type.size,
    "ndim": lambda x: len(x.type.shape),
    "T": creation.trans,
    "handle": lambda x: x,
}


def _to(x: Block, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Block:
    return creation.cast(x, dtype, fp_downcast_rounding, bitcast)


def _logical(name: str) -> Callable[[Block, Any], Block]:
    from eas.triton.language.meaning import binary, truth

    return lambda x, other: binary(name, truth(x), truth(other))


METHODS: dict[str, Callable[..., Any]] = {
    "to": _to,
    "item": lambda x: creation.reshape(x, ()) if x.shape else x,
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    **{
        name: getattr(module, name)
        for module, names in (
            (creation, "broadcast_to cast cdiv expand_dims flip gather histogram permute ravel reshape sort split squeeze trans unsqueeze view topk"),
            (folding, "argmax argmin associative_scan cumprod cumsum max min reduce reduce_or sum xor_sum"),
            (math, "abs ceil cos erf exp exp2 floor log log2 rsqrt sigmoid sin sqrt sqrt_rn"),
            (memory, "atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor store"),
        )
        for name in names.split()
    },
}
