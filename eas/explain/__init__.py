"""Pages that show what became of a kernel or of a lazy tensor: `eas.explain(what)`, `kernel.explain(args)`, `tensor.explain()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eas.explain.page import Explanation

__all__ = ["explain"]


def explain(what: Any, *args: Any, **kwargs: Any) -> Explanation:
    """One HTML page about a kernel and the arguments of a launch, or about a tensor that is not computed yet."""
    page: Explanation = what.explain(*args, **kwargs)
    return page
