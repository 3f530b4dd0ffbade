"""One function for every kind of array: NumPy in, NumPy out; eas.Tensor in, eas.Tensor out; torch in, torch out."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eas.base.errors import ArgumentError
from eas.base.loading import load
from eas.interop.arg_view import is_of_mlx, is_torch_tensor
from eas.interop.pending import PENDING
from eas.launch.callable import Callable as Called
from eas.launch.callable import LaunchTable, called_natively
from eas.launch.capture import Captured, capture
from eas.lib.faces.torch_arrays import TorchArray, as_array, as_torch
from eas.runtime.streams import SPECIAL
from eas.tensor import Tensor, tensor

if TYPE_CHECKING:
    from eas.launch.derive import Derived

Fn = Callable[..., Any]
_LEARN_AFTER = 4  # calls of a kind: the kernel has a plan by then
_MAX_SEEN = 256  # kinds of calls that are counted
_MAX_PLANS = 16


def takes_any(fn: Fn, *, gradient_args: int = 0, makes_integers: bool = False, is_one_launch: bool = False) -> Fn:
    """`fn`, which takes NumPy arrays and eas tensors, for torch tensors too.

    With `gradient_args` torch tensors go to the function of that name in eas.lib.faces.torch: the
    number of arguments before `out`, which autograd could not see. With `is_one_launch` the function checks its
    arguments and launches one kernel, and does nothing else where `out` is given: such calls get plans of their own.
    """
    return LibraryFunction(fn, gradient_args, makes_integers, is_one_launch)


@called_natively
class LibraryFunction(Called):
    """A function of eas.lib for every kind of array."""

    def __init__(self, fn: Fn, gradient_args: int, makes_integers: bool, is_one_launch: bool) -> None:
        functools.update_wrapper(self, fn)
        self._fn, self._gradient_args, self._makes_integers, self._is_one_launch = fn, gradient_args, makes_integers, is_one_launch
        self._table: LaunchTable[Derived] = LaunchTable()
        self._seen: dict[Any, int] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Whatever no plan takes."""
        first = args[0] if args else next(iter(kwargs.values()), None)
        kind = type(first)
        if kind is np.ndarray or kind is Tensor:
            return self._learning(args, kwargs) if self._is_one_launch and kwargs.get("out") is not None else self._fn(*args, **kwargs)
        if not is_torch_tensor(first):
            if is_of_mlx(first):  # read-only: what is made is a tensor of eas
                return self._fn(*map(_of_eas, args), **{name: _of_eas(a) for name, a in kwargs.items()})
            return self._fn(*args, **kwargs)
        if self._gradient_args and len(args) <= self._gradient_args and kwargs.get("out") is None:
            return self._face(*args, **kwargs)
        return _on_torch(self._fn, args, kwargs, self._makes_integers)

    @functools.cached_property
    def _face(self) -> Fn:
        load("eas.lib.faces.torch")
        from eas.lib.faces import torch as torch_faces

        found: Fn = getattr(torch_faces, self._fn.__name__)
        return found

    def _learning(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, and a plan for calls that came often."""
        given = (*args, *kwargs.values())
        key = (len(args), *kwargs, *(_kind_of(value) for value in given))
        try:
            count = self._seen[key] = self._seen.get(key, 0) + 1
        except TypeError:  # an argument that is no key: the function says what is wrong with it
            return self._fn(*args, **kwargs)
        if len(self._seen) > _MAX_SEEN:
            self._seen.clear()
        for known in self._table:
            known.follow()
        # A tensor without memory would be computed by launches, which a capture does not run.
        if count != _LEARN_AFTER or SPECIAL or PENDING or any(type(value) is Tensor and value._memory is None for value in given):
            return self._fn(*args, **kwargs)
        with capture() as graph:
            self._fn(*args, **kwargs)
        made = self._fn(*args, **kwargs)
        plan = self._derived(graph._captured, args, kwargs) if made is kwargs["out"] else None
        if plan is not None:
            self._table.add(plan, _MAX_PLANS)
            self._call_natively(self._table)
        return made

    def _derived(self, launches: list[Captured], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Derived | None:
        if len(launches) != 1 or launches[0].learner is None:
            return None
        signature = inspect.signature(self._fn)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not p.empty}
        load("eas.launch.derive")
        from eas.launch.derive import derived

        return derived(launches[0].learner, launches[0].values, launches[0].grid, self._fn, bound.arguments, defaults, "out")


def _kind_of(value: Any) -> Any:
    """Equal for arguments that one plan takes."""
    kind = type(value)
    return (kind, value.dtype, value.shape) if kind is np.ndarray or kind is Tensor else (kind, value)


def _of_eas(value: Any) -> Any:
    return tensor(value) if is_of_mlx(value) else value


def _on_torch(fn: Fn, args: tuple[Any, ...], kwargs: dict[str, Any], makes_integers: bool) -> Any:
    torch = sys.modules["torch"]
    given = [a for a in (*args, *kwargs.values()) if is_torch_tensor(a)]
    if not makes_integers and torch.is_grad_enabled() and any(a.requires_grad for a in given):
        raise ArgumentError(
            f"eas.lib.{fn.__name__} has no gradient, and got a torch tensor that requires grad",
            hint="pass x.detach(), or call it under torch.no_grad()",
        )
    made = fn(*map(as_array, args), **{name: as_array(a) for name, a in kwargs.items()})
    out = _the_same(made, given)
    return as_torch(made, given[0].device) if out is None else out


def _the_same(made: Any, given: list[Any]) -> Any:
    """The torch tensor that was passed as `out`, if there is one."""
    if isinstance(made, TorchArray):
        return made.tensor
    if isinstance(made, np.ndarray | Tensor) and made.size:
        memory = made._stored if isinstance(made, Tensor) else made
        same = [t for t in given if t.data_ptr() == memory.ctypes.data and t.shape == made.shape]
        return same[-1] if same else None
    return None
