"""Sizes that grids and block sizes are made from: also asked for by hosts that never trace a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eas.frontend.block import Operand


def cdiv(a: Operand, b: Operand) -> Any:
    """(a + b - 1) // b, the number of pieces of size b; a Python int of two Python ints."""
    if type(a) is int and type(b) is int and b > 0:
        return -(-a // b)
    from eas.frontend.lang import index as lang_index

    return lang_index.cdiv(a, b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n, which is known when tracing."""
    if type(n) is int:
        return 1 << max(0, n - 1).bit_length()
    from eas.frontend.lang import index as lang_index

    return lang_index.next_power_of_2(n)
