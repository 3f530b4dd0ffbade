"""Plans of Python functions that check their arguments and make one launch: for arguments of these types, shapes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from eas.interop.arg_view import TENSOR_CLASSES, address_of
from eas.launch import plan as lp
from eas.launch.learn import Learner, is_fixed
from eas.launch.native_plan import NativePlan, make_native
from eas.launch.plan import Axis, Fixed, Param
from eas.runtime import Grid


class Derived:
    """The plan of a function, which knows the code that the plan of its kernel knows."""

    __slots__ = ("_base", "native")

    def __init__(self, native: NativePlan, base: Learner) -> None:
        self.native: NativePlan | None = native
        self._base = base

    def follow(self) -> None:
        """Know the code that was learnt since."""
        if self.native is not None and self._base.native is not None and self._base.native.plan.facts == self.native.plan.facts:
            self.native.take_variants(self._base.native)


def derived(learner: Learner, values: Sequence[Any], grid: Grid, fn: Callable[..., Any], given: Mapping[str, Any], defaults: Mapping[str, Any], answer: str) -> Derived | None:
    """The plan of calls of `fn` like this one, which launched the kernel on `values`, and returns its argument `answer`; None if there is no such plan."""
    if learner.native is None or type(fn) is not FunctionType:
        return None
    plan, values = learner.native.plan, values[: len(learner.native.plan.params)]
    arrays = {name: value for name, value in given.items() if type(value) is np.ndarray or type(value) in TENSOR_CLASSES}
    at = {address_of(array if type(array) is np.ndarray else array._memory): name for name, array in arrays.items()}
    buffers = {at.get(address_of(value)): p for p, value in zip(plan.params, values, strict=True) if p.kind == "buffer"}
    if buffers.keys() != arrays.keys() or len(at) != len(arrays) or not all(array.size for array in arrays.values()):
        return None
    numbers = [(p, lp.number_word(p.kind, value)) for p, value in zip(plan.params, values, strict=True) if p.kind not in ("buffer", "constant")]
    params = []
    for name, value in given.items():
        default = defaults.get(name, lp.MISSING)
        if name in arrays:
            params.append(replace(buffers[name], name=name, shape=tuple(value.shape), default=lp.MISSING))
        elif is_fixed(value):
            params.append(Param(name, "constant", value=value, default=default))
        else:
            return None
    fixed = tuple(Fixed(p.slot, word) for p, word in numbers if word is not None)
    if len(fixed) != len(numbers):
        return None
    x, y, z = (Axis(count=n) for n in grid)
    own = lp.FunctionGuard(fn, fn.__code__, fn.__defaults__, fn.__kwdefaults__)
    place = [p.name for p in params].index(answer)
    made = make_native(replace(plan, params=tuple(params), axes=(x, y, z), guards=(*plan.guards, own), fixed=fixed, is_host=False, answer=place, n_positional=fn.__code__.co_argcount))
    if made is None:
        return None
    found = Derived(made, learner)
    found.follow()
    return found
