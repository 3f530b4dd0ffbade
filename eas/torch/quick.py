"""Operators without torch's dispatcher, where nothing but autograd would look at the call.

The dispatcher and the glue of torch.library take longer than a small kernel. What they are for (tracing,
fake tensors, vmap, autocast, modes, other devices, subclasses, profiles) is asked for first, and such a
call goes through the operator; so both ways give the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from eas.base.errors import ArgumentError
from eas.torch.op import Backward, bodies

Fn = Callable[..., Any]


def quick(op: Any) -> Fn:
    """A function that does what the operator does, sooner where it can."""
    torch = sys.modules["torch"]
    is_watched = _watch(torch)
    if is_watched is None:
        return op  # type: ignore[no-any-return]
    body, gradient = bodies[op]
    recorded = _recorded(torch, op, body, gradient) if gradient else None
    plain, grad_mode, compiler = (torch.Tensor, torch.nn.Parameter), torch.is_grad_enabled, torch.compiler

    defaults = [a.default_value if a.has_default_value() else None for a in op._schema.arguments]

    def call(*args: Any) -> Any:
        # Other tracers than Dynamo work with modes, which are watched.
        if compiler.is_dynamo_compiling() or is_watched():
            return op(*args)
        needs_grad = False
        for value in args:
            if isinstance(value, torch.Tensor):
                if type(value) not in plain or not (value.is_cpu or value.is_mps):
                    return op(*args)
                needs_grad = needs_grad or value.requires_grad
            elif value is not None and not isinstance(value, int | float | str):
                raise ArgumentError(
                    f"{op._name} takes torch tensors, got {type(value).__module__}.{type(value).__qualname__}",
                    hint="pass torch tensors only: torch.from_numpy(a), or t.to_torch()",
                )
        if not needs_grad or not grad_mode():
            return body(*args)
        if len(args) < len(defaults):
            args = (*args, *defaults[len(args) :])
        return op(*args) if recorded is None else recorded(*args)

    return call


def _watch(torch: Any) -> Fn | None:
    """A function that says whether this thread does more than compute; None where torch cannot tell."""
    core = torch._C
    names = ("_len_torch_dispatch_stack", "_len_torch_function_stack", "_are_functorch_transforms_active", "_is_any_autocast_enabled", "_get_tracing_state")
    if not all(hasattr(core, name) for name in names) or not hasattr(core._autograd, "_profiler_enabled"):
        return None
    modes, functions, transforms, autocast, tracing = (getattr(core, name) for name in names)
    profiler, forward_ad = core._autograd._profiler_enabled, torch.autograd.forward_ad

    def is_watched() -> bool:
        return bool(
            modes() or functions() or transforms() or profiler() or autocast()
            or tracing() is not None or forward_ad._current_level >= 0
        )  # fmt: skip

    return is_watched


def _recorded(torch: Any, op: Any, body: Fn, gradient: Backward) -> Fn:
    """The body as a node of autograd's graph."""

    def forward(ctx: Any, *args: Any) -> Any:
        made = body(*args)
        gradient.setup(ctx, args, made)
        return made

    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # create_graph=True: the operator says what is wrong with that
            return gradient.backward(ctx, *grads)
        return gradient.gradients(ctx, grads, gradient.body)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made = type(op._name.replace("::", "_"), (torch.autograd.Function,), methods)
    # What Function.apply adds is for transforms, which are watched.
    apply: Fn = super(torch.autograd.Function, made).apply
    return apply
