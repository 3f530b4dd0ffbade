"""The annotation of parameters whose values are known when a kernel is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:

    class Constant(Any):  # type: ignore[misc]  # a value of it may stand wherever an int, a dtype, ... may
        """What type checkers take the value of a meta-parameter for."""

    constexpr = Constant | Any  # and anything is one: `BLOCK: eas.constexpr = 128`

else:

    class constexpr:  # lower case: it reads as a keyword in kernel signatures
        """Annotate a kernel parameter with it: its value is part of the compiled kernel's identity."""

        def __new__(cls, value: Any = None) -> Any:
            """`constexpr(x)` is x, as in Triton."""
            return value


def is_constexpr(annotation: object) -> bool:
    """Also under `from __future__ import annotations`, where annotations are strings."""
    if isinstance(annotation, str):
        return annotation.split("[")[0].split(".")[-1].strip() == "constexpr"
    return annotation is constexpr or getattr(annotation, "__eas_constexpr__", False) is True


class Static(NamedTuple):
    """A trace-time argument: a constexpr, or None for an absent buffer."""

    value: Any
