"""The annotation of parameters whose values are known when a kernel is compiled."""

from __future__ import annotations

from typing import Any, NamedTuple


class constexpr:  # lower case: it reads as a keyword in kernel signatures
    """Annotate a kernel parameter with it: its value is part of the compiled kernel's identity."""

    def __new__(cls, value: Any = None) -> Any:
        """`constexpr(x)` is x, as in Triton."""
        return value


def is_constexpr(annotation: object) -> bool:
    """Also under `from __future__ import annotations`, where annotations are strings."""
    if isinstance(annotation, str):
        return annotation.split("[")[0].split(".")[-1].strip() == "constexpr"
    return annotation is constexpr


class Static(NamedTuple):
    """A trace-time argument: a constexpr, or None for an absent buffer."""

    value: Any
