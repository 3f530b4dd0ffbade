"""One function for every kind of array: NumPy in, NumPy out; eas.Tensor in, eas.Tensor out; torch in, torch out."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from eas.base.errors import ArgumentError
from eas.base.loading import load
from eas.interop.arg_view import is_of_mlx, is_torch_tensor
from eas.lib.faces.torch_arrays import TorchArray, as_array, as_torch
from eas.tensor import Tensor, tensor

Fn = Callable[..., Any]


def takes_any(fn: Fn, *, gradient_args: int = 0, makes_integers: bool = False) -> Fn:
    """`fn`, which takes NumPy arrays and eas tensors, for torch tensors too.

    With `gradient_args` torch tensors go to the function of that name in eas.lib.faces.torch: the
    number of arguments before `out`, which autograd could not see.
    """

    face: Fn | None = None

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal face
        first = args[0] if args else next(iter(kwargs.values()), None)
        kind = type(first)
        if kind is np.ndarray or kind is Tensor:
            return fn(*args, **kwargs)
        if not is_torch_tensor(first):
            if is_of_mlx(first):  # read-only: what is made is a tensor of eas
                return fn(*map(_of_eas, args), **{name: _of_eas(a) for name, a in kwargs.items()})
            return fn(*args, **kwargs)
        if gradient_args and len(args) <= gradient_args and kwargs.get("out") is None:
            if face is None:
                load("eas.lib.faces.torch")
                from eas.lib.faces import torch as torch_faces

                face = getattr(torch_faces, fn.__name__)
            return face(*args, **kwargs)
        return _on_torch(fn, args, kwargs, makes_integers)

    return call


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
