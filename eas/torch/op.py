"""`eas.torch_op`: a Python function that launches kernels becomes an operator of torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from eas.base.errors import ArgumentError, BackendUnavailable, LostWrite
from eas.runtime.native.torch_threads import share_threads

__all__ = ["torch_op"]

Fn = Callable[..., Any]
Batching = Literal["elementwise", "leading", "loop"]


@overload
def torch_op(fn: Fn, /) -> Any: ...
@overload
def torch_op(
    name: str | None = None,
    /,
    *,
    mutates_args: Sequence[str] = (),
    fake: Fn | None = None,
    backward: Fn | None = None,
    backward_fake: Fn | None = None,
    differentiates: Sequence[str] | None = None,
    vmap: Batching = "loop",
    autocast: Any = None,
) -> Callable[[Fn], Any]: ...
def torch_op(
    name: Any = None,
    /,
    *,
    mutates_args: Sequence[str] = (),
    fake: Fn | None = None,
    backward: Fn | None = None,
    backward_fake: Fn | None = None,
    differentiates: Sequence[str] | None = None,
    vmap: Batching = "loop",
    autocast: Any = None,
) -> Any:
    """Make a function that launches kernels an operator that autograd, torch.compile and vmap know.

    The schema comes from its type hints. `mutates_args` names the tensors that it writes
    (the operator itself is then the attribute `op` of the result). `fake`
    has the same parameters and returns empty tensors of the right shapes; without it, the one
    result is like the first tensor. `backward` computes gradients: its parameters name what it
    needs (`grad` or `grad0`, `grad1`, .. of the results; `out` or `out0`, ..; parameters of the
    function), and it returns the gradient of every tensor in `differentiates`, by default of all
    tensor parameters; for one that was None it returns an empty tensor. Gradients are contiguous and
    like what they belong to, unless `backward_fake` returns others. `vmap` says what happens to
    a batch: `elementwise` and `leading` functions take one more axis in front, others are looped
    over. `autocast` is the dtype to which floats are cast under torch.autocast.
    """
    if callable(name):
        return _define(name, None, (), None, None, None, None, "loop", None)
    if vmap not in ("elementwise", "leading", "loop"):
        raise ArgumentError(f"vmap is 'elementwise', 'leading' or 'loop', not {vmap!r}")
    return lambda fn: _define(
        fn, name, mutates_args, fake, backward, backward_fake, differentiates, vmap, autocast
    )


def _define(
    fn: Fn,
    name: str | None,
    mutates_args: Sequence[str],
    fake: Fn | None,
    backward: Fn | None,
    backward_fake: Fn | None,
    differentiates: Sequence[str] | None,
    vmap: Batching,
    autocast: Any,
) -> Any:
    torch = _import_torch()
    share_threads()
    full_name = _full_name(fn, name)
    if mutates_args and backward is not None:
        raise ArgumentError(
            f"{fn.__name__} writes {', '.join(mutates_args)} and has a backward: torch differentiates operators that write nothing",
            hint="return new tensors instead of writing arguments",
        )
    op = _make_op(torch, full_name, fn, tuple(mutates_args))
    tensors = _tensor_names(op)
    _register_fake(torch, op, fn, fake, tensors)
    gradient = None
    if backward is not None:
        wanted = tuple(tensors if differentiates is None else differentiates)
        gradient = Backward(torch, op, fn, backward, wanted)
        gradient.register(backward_fake)
    elif not mutates_args:
        _register_autograd(torch, op, lambda ctx, inputs, output: None, _no_gradient(full_name))
    bodies[op] = (fn, gradient)
    torch.library.register_vmap(full_name, _batching_rule(torch, op, vmap), lib=_library(torch, full_name))
    if autocast is not None:
        for device in ("cpu", "mps", "cuda"):
            torch.library.register_autocast(full_name, device, autocast, lib=_library(torch, full_name))
    return _guarded(torch, op, fn, tuple(mutates_args)) if mutates_args else op


def _guarded(torch: Any, op: Any, fn: Fn, mutates_args: tuple[str, ...]) -> Fn:
    """The operator behind a check that only stands above autograd: inside, grad mode is off."""
    names = list(inspect.signature(fn).parameters)

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            for name in mutates_args:
                place = names.index(name)
                given = args[place] if place < len(args) else kwargs.get(name)
                if given is not None and given.requires_grad:
                    raise LostWrite(
                        f"{fn.__name__} writes argument {name!r}, a torch tensor that requires grad: autograd would miss the write",
                        hint=f"pass {name}.detach(), or call it under torch.no_grad()",
                    )
        return op(*args, **kwargs)

    call.__name__, call.__doc__ = fn.__name__, fn.__doc__
    call.op = op  # type: ignore[attr-defined]  # for torch.library.opcheck
    return call


bodies: dict[Any, tuple[Fn, Any]] = {}
"""What is behind an operator: its function, and its `Backward` if it has a gradient."""
_libraries: dict[str, Any] = {}  # by operator: torch forgets the operators of a library that nobody holds
_authors: dict[str, tuple[str, str]] = {}  # by operator: the module and the name of its function


def _library(torch: Any, full_name: str) -> Any:
    if full_name not in _libraries:
        _libraries[full_name] = torch.library.Library(full_name.partition("::")[0], "FRAGMENT")
    return _libraries[full_name]


def _forget_earlier(full_name: str, fn: Fn) -> None:
    """Let a function that is defined once more, as a cell of a notebook does, take the place of the earlier one."""
    author = (fn.__module__, fn.__qualname__)
    if _authors.get(full_name) == author and full_name in _libraries:
        for op in [op for op in bodies if op._name == full_name]:
            del bodies[op]
        _libraries.pop(full_name)._destroy()
    _authors[full_name] = author


def _make_op(torch: Any, full_name: str, fn: Fn, mutates_args: tuple[str, ...]) -> Any:
    """The operator `torch.ops.library.name.default`, without gradients so far."""
    _forget_earlier(full_name, fn)
    fn = _watched(torch, full_name, fn, mutates_args)
    if mutates_args:
        _schema_of(torch, fn, fn, mutates_args)  # custom_op tells autograd of the writes
        return torch.library.custom_op(full_name, fn, mutates_args=mutates_args)._opoverload
    run = _without_grad(torch, fn)
    library, (space, _, short) = _library(torch, full_name), full_name.partition("::")
    schema = _schema_of(torch, fn, run)
    library.define(f"{short}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(short, run, "CompositeExplicitAutograd")
    return getattr(getattr(torch.ops, space), short).default


def _schema_of(torch: Any, fn: Fn, run: Fn, mutates_args: tuple[str, ...] = ()) -> Any:
    """The schema that torch reads from the type hints; what it refuses is told in the words of the function."""
    hint = "torch.Tensor, torch.Tensor | None, int, float, bool and str are types of parameters; results are -> torch.Tensor, -> tuple[torch.Tensor, ...] with each, or -> None"
    signature = inspect.signature(run)
    untyped = [name for name, p in signature.parameters.items() if p.annotation is p.empty]
    if untyped or signature.return_annotation is signature.empty:
        what = " and ".join([f"parameter `{name}`" for name in untyped] + ["its result"] * (signature.return_annotation is signature.empty))
        raise ArgumentError(f"{fn.__name__} becomes an operator of torch by its type hints, which are missing for {what}", hint=hint).at(_head_of(fn))
    try:
        return torch.library.infer_schema(run, mutates_args=mutates_args)
    except ValueError as error:
        text = str(error).removeprefix("infer_schema(func): ").partition(" The valid types")[0].partition(" Got func")[0]
        raise ArgumentError(f"{fn.__name__} cannot become an operator of torch: {text}", hint=hint).at(_head_of(fn)) from None


def _head_of(fn: Fn) -> Any:
    from eas.frontend.syntax.source import head_of

    return head_of(inspect.unwrap(fn))


# --- names and schemas --------------------------------------------------------------------------


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailable(
            "eas.torch_op needs torch, which is not installed", hint="pip install torch"
        ) from error
    return torch


def _full_name(fn: Fn, name: str | None) -> str:
    if name is None:
        space = fn.__module__.partition(".")[0].strip("_")
        name = f"{space}::{fn.__name__}"
    space, _, short = name.partition("::")
    if not (space.isidentifier() and short.replace(".", "_").isidentifier()):
        raise ArgumentError(
            f"{name!r} is no name of an operator", hint='give it as "library::operator"'
        )
    return name


def _without_grad(torch: Any, fn: Fn) -> Fn:
    """Autograd works above the operator: inside, inputs that require grad are plain memory."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return fn(*args, **kwargs)

    return _described_as(run, fn)


def _described_as(run: Fn, fn: Fn) -> Fn:
    run.__name__, run.__qualname__, run.__doc__ = fn.__name__, fn.__qualname__, fn.__doc__
    run.__module__, run.__wrapped__ = fn.__module__, fn  # type: ignore[attr-defined]
    # The schema is read from these; annotations that are strings mean names of the function's module.
    run.__signature__ = inspect.signature(fn, eval_str=True)  # type: ignore[attr-defined]
    run.__annotations__ = inspect.get_annotations(fn, eval_str=True)
    return run


def _watched(torch: Any, full_name: str, fn: Fn, mutates_args: tuple[str, ...]) -> Fn:
    """`fn`, which warns once if it has written a tensor that torch does not know to be written."""
    names, told = list(inspect.signature(fn).parameters), False

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal told
        if told:
            return fn(*args, **kwargs)
        given = [(n, x) for n, x in (*zip(names, args, strict=False), *kwargs.items()) if n not in mutates_args and type(x) is torch.Tensor and not x.is_inference()]
        before = [x._version for _, x in given]
        made = fn(*args, **kwargs)
        written = [n for (n, x), version in zip(given, before, strict=True) if x._version != version]
        if written:
            told = True
            _advise_on_write(full_name, fn, written)
        return made

    return _described_as(run, fn)


def _advise_on_write(full_name: str, fn: Fn, written: list[str]) -> None:
    from eas.frontend.advice import advise

    shown = ", ".join(f"`{name}`" for name in written)
    advise(f"operator {full_name} writes its argument {shown}, of which torch knows nothing: torch.compile and autograd may use what was there before", f"mutates_args={written!r}", _head_of(fn))


def _tensor_names(op: Any) -> list[str]:
    """The parameters that are tensors, or may be."""
    kinds = ("Tensor", "Optional[Tensor]", "Tensor?")
    return [a.name for a in op._schema.arguments if str(a.type) in kinds]


def _returns(op: Any) -> list[str]:
    return [str(r.type) for r in op._schema.returns]


def _register_fake(torch: Any, op: Any, fn: Fn, fake: Fn | None, tensors: list[str]) -> None:
    if fake is None:
        fake = _default_fake(torch, op, fn, tensors)
    names = [a.name for a in op._schema.arguments]

    def checked(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        places = {str(given[n].device): n for n in reversed(tensors) if given.get(n) is not None}
        if len(places) > 1:
            where = "; ".join(f"`{n}` on {place}" for place, n in places.items())
            raise ArgumentError(f"{op._name} got tensors on different devices: {where}", hint="move them to one device with .to(...)")
        return fake(*args, **kwargs)

    torch.library.register_fake(op, checked, lib=_library(torch, op._name))


def _default_fake(torch: Any, op: Any, fn: Fn, tensors: list[str]) -> Fn:
    """No result, or one that is like the first tensor."""
    returns = _returns(op)
    if not returns:
        return lambda *args, **kwargs: None
    if returns != ["Tensor"] or not tensors:
        raise ArgumentError(
            f"{fn.__name__} returns {', '.join(returns)}: eas.torch_op cannot know the shapes",
            hint="pass fake=, a function of the same parameters that returns torch.empty(...) of each",
        )
    names = list(inspect.signature(fn).parameters)

    def like_first(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return torch.empty_like(given[tensors[0]], memory_format=torch.contiguous_format)

    return like_first


# --- gradients ----------------------------------------------------------------------------------


def _register_autograd(torch: Any, op: Any, setup: Fn, backward: Fn) -> None:
    """What torch.library.register_autograd does, for torch.func.grad and its relatives as well.

    Function.apply refuses them a Function whose forward takes a context. Below it nothing does: inside of
    an operator the tensors are those of one level, and the dispatcher goes on to the next.
    """
    core, names = torch._C, [a.name for a in op._schema.arguments]
    defaults = [a.default_value if a.has_default_value() else None for a in op._schema.arguments]

    def below(keyset: Any, args: tuple[Any, ...]) -> Any:
        with core._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & core._after_autograd_keyset, *args)

    def forward(ctx: Any, keyset: Any, *args: Any) -> Any:
        if core._are_functorch_transforms_active():  # outer levels record too: a Function switches that off
            with torch.enable_grad(), torch.autograd.forward_ad._set_fwd_grad_enabled(True):
                made = below(keyset, args)
        else:
            made = below(keyset, args)
        setup(ctx, args, made)
        return made

    methods = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, *grads: (None, *backward(ctx, *grads)))}
    made = type(f"operator_{op._name.replace('::', '_')}", (torch.autograd.Function,), methods)
    apply = super(torch.autograd.Function, made).apply

    def enter(keyset: Any, *args: Any) -> Any:
        if torch.autograd.forward_ad._current_level >= 0:
            _refuse_tangents(torch, op, dict(zip(names, args, strict=False)))
        if not (torch.is_grad_enabled() and core._any_requires_grad(*args)):
            return below(keyset, args)
        args = (*args, *defaults[len(args) :])
        if not core._are_functorch_transforms_active():
            return apply(keyset, *args)
        from torch._functorch.utils import enable_single_level_autograd_function

        with enable_single_level_autograd_function():
            return apply(keyset, *args)

    _library(torch, op._name).impl(op._name.partition("::")[2], enter, "Autograd", with_keyset=True)


def _no_gradient(full_name: str) -> Fn:
    """The backward of an operator that has none; torch would only warn, and leave gradients out."""

    def refuse(ctx: Any, *grads: Any) -> Any:
        raise ArgumentError(f"{full_name} has no gradient", hint="pass backward= to eas.torch_op, or call it on x.detach()")

    return refuse


def _refuse_tangents(torch: Any, op: Any, given: dict[str, Any]) -> None:
    """Refuse forward mode, in which the operator would count as constant."""
    for name, value in given.items():
        if isinstance(value, torch.Tensor) and torch.autograd.forward_ad.unpack_dual(value).tangent is not None:
            raise ArgumentError(
                f"{op._name} has no forward derivative, and argument {name!r} carries a tangent",
                hint="use reverse mode: torch.func.vjp, jacrev or grad",
            )


class Backward:
    """How the parameters of a backward function are found, and where its results go."""

    def __init__(
        self, torch: Any, op: Any, fn: Fn, backward: Fn, differentiates: tuple[str, ...]
    ) -> None:
        self.torch, self.op, self.fn, self.body = torch, op, fn, backward
        self.differentiates = differentiates
        self.inputs = [a.name for a in op._schema.arguments]
        unknown = [n for n in differentiates if n not in self.inputs]
        if unknown:
            raise ArgumentError(f"{fn.__name__} has no parameter {unknown[0]!r} to differentiate by")
        self.needs = [(n, *self._source(n)) for n in inspect.signature(backward).parameters]
        self.gradient_places = [self.inputs.index(name) for name in differentiates]
        self._plan_what_is_kept()
        self.unused = self._results_without_gradient()
        self.run = _make_op(torch, f"{op._name}_backward", backward, ())
        returns = _returns(self.run)
        if returns != ["Tensor"] * len(differentiates):
            raise ArgumentError(
                f"the backward of {fn.__name__} is declared to return {', '.join(returns)}, "
                f"one Tensor is needed for each of {', '.join(differentiates)}",
                hint="annotate it as -> tuple[torch.Tensor, ...] with one entry for each, or pass differentiates=",
            )

    def _source(self, name: str) -> tuple[str, Any]:
        """Where a parameter of the backward function comes from: a gradient, a result or an input."""
        count = len(_returns(self.op))
        if name in self.inputs:
            return ("input", name)
        for kind in ("grad", "out"):
            index = name.removeprefix(kind)
            is_numbered = index.isdigit() or (not index and count == 1)
            if name.startswith(kind) and is_numbered and int(index or 0) < count:
                return (kind, int(index or 0))
        raise ArgumentError(
            f"the backward of {self.fn.__name__} has the parameter {name!r}, which is neither a parameter of it nor a result",
            hint="use grad or grad0, grad1, .. for gradients and out or out0, out1, .. for results",
        )

    def _results_without_gradient(self) -> tuple[int, ...]:
        used = {source for _, kind, source in self.needs if kind == "grad"}
        return tuple(i for i in range(len(_returns(self.op))) if i not in used)

    def fake(self, *args: Any) -> Any:
        given = {need[0]: value for need, value in zip(self.needs, args, strict=True)}
        some = next(given[name] for name, kind, _ in self.needs if kind == "grad")
        made = []
        for name in self.differentiates:
            like = given.get(name, some)
            made.append(
                some.new_empty(0)
                if like is None
                else self.torch.empty_like(like, memory_format=self.torch.contiguous_format)
            )
        return made[0] if len(made) == 1 else tuple(made)

    def register(self, fake: Fn | None) -> None:
        library = _library(self.torch, self.op._name)
        self.torch.library.register_fake(self.run, self.fake if fake is None else fake, lib=library)
        _register_autograd(self.torch, self.op, self.setup, self.backward)
        _register_autograd(self.torch, self.run, lambda ctx, inputs, output: None, self.second)
        self.torch.library.register_vmap(self.run._name, _batching_rule(self.torch, self.run, "loop"), lib=library)

    def second(self, ctx: Any, *grads: Any) -> Any:
        """Refuse the gradient of a gradient; torch would take it for zero."""
        raise ArgumentError(
            f"{self.op._name} has no second derivative", hint="differentiate it once, without create_graph=True"
        )

    def _plan_what_is_kept(self) -> None:
        """Where gradients find their parameters: between forward and backward no name is looked up."""
        tensors, places = _tensor_names(self.op), self.inputs.index
        inputs = [s for _, kind, s in self.needs if kind == "input"]
        self.kept_inputs = [places(n) for n in inputs if n in tensors]
        self.kept_values = [places(n) for n in inputs if n not in tensors]
        self.kept_results = [s for _, kind, s in self.needs if kind == "out"]
        # All that a backward may need, in one row: gradients, then what was kept.
        row = [("grad", i) for i in range(len(_returns(self.op)))]
        row += [("input", self.inputs[i]) for i in self.kept_inputs] + [("out", i) for i in self.kept_results]
        row += [("input", self.inputs[i]) for i in self.kept_values]
        self.order = [row.index((kind, s)) for _, kind, s in self.needs]
        kinds = {a.name: str(a.type) for a in self.op._schema.arguments}
        self.optional = [i for i in self.gradient_places if kinds[self.inputs[i]] != "Tensor"]

    def setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the backward function names, and nothing else."""
        results = output if isinstance(output, tuple | list) else (output,)
        ctx.save_for_backward(*[inputs[i] for i in self.kept_inputs], *[results[i] for i in self.kept_results])
        absent = [i for i in self.optional if inputs[i] is None]
        ctx.eas_kept = [inputs[i] for i in self.kept_values], absent
        if self.unused:
            ctx.mark_non_differentiable(*[results[i] for i in self.unused])

    def backward(self, ctx: Any, *grads: Any) -> Any:
        """The gradients of all parameters, computed by the operator."""
        return self.gradients(ctx, grads, self.run)

    def gradients(self, ctx: Any, grads: tuple[Any, ...], run: Fn) -> tuple[Any, ...]:
        """The gradients of all parameters, computed by `run`."""
        values, absent = ctx.eas_kept
        row = (*grads, *ctx.saved_tensors, *values)
        made = run(*[row[i] for i in self.order])
        found: list[Any] = [None] * len(self.inputs)
        for place, gradient in zip(self.gradient_places, made if len(self.gradient_places) > 1 else (made,), strict=True):
            found[place] = gradient
        for place in absent:
            found[place] = None
        return tuple(found)


# --- batches ------------------------------------------------------------------------------------


def _batching_rule(torch: Any, op: Any, how: Batching) -> Fn:
    """What torch.vmap does with the operator."""

    def in_front(x: Any, axis: int | None, size: int) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if axis is not None:
            return x.movedim(axis, 0)
        return x.unsqueeze(0).expand(size, *x.shape) if how == "elementwise" else x

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        size = info.batch_size
        others_batched = any(d is not None for d in in_dims[1:])
        if how == "elementwise" or (how == "leading" and in_dims[0] is not None and not others_batched):
            made = op(*(in_front(x, d, size) for x, d in zip(args, in_dims, strict=True)))
            return made, (0 if isinstance(made, torch.Tensor) else tuple(0 for _ in made))
        made = [
            op(*(x if d is None else x.select(d, i) for x, d in zip(args, in_dims, strict=True)))
            for i in range(size)
        ]
        if isinstance(made[0], torch.Tensor):
            return torch.stack(made), 0
        return tuple(map(torch.stack, zip(*made, strict=True))), tuple(0 for _ in made[0])

    return rule
