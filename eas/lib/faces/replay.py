"""Launches on torch tensors whose layouts were seen before: a few questions to torch, then native code.

Between large products of a network the caches are cold, and every line of Python takes several times as
long as in a loop that does nothing else. So what depends on shapes only is found once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eas.kernel import Kernel
from eas.launch.plan import Param, Reading, interpret
from eas.lib.kernels import Launch

Tensors = tuple[Any, ...]
Views = Callable[[Tensors, Tensors], Tensors]
Part = tuple[int, int, tuple[int, ...]]
"""An argument of the kernel: whose memory it is, at which byte of it, how many elements, and what the kernel asks of it."""

_MAX_KNOWN = 256  # layouts of one operator: past it shapes change with every call
_NO_NAMES: dict[str, Any] = {}


class Replays:
    """The launches of one operator: a kernel that takes `inputs`, then `outputs`, then numbers.

    `prepare(inputs, params)` checks the inputs and says what to launch; it is asked once for every layout
    of the inputs and every value of the parameters, which together say what the outputs look like.
    """

    def __init__(self, prepare: Callable[[Tensors, Any], Launch]) -> None:
        self._prepare = prepare
        self._known: dict[Any, _Replay] = {}

    def __call__(self, inputs: Tensors, params: Any, make: Callable[[], Tensors], views: Views | None = None) -> Tensors:
        """The outputs, which `make` makes, after the kernel has filled them.

        `views(inputs, outputs)` are the tensors that the kernel takes, where these are parts of others.
        """
        key = _layouts(inputs, params)
        known = self._known.get(key)
        if known is not None:
            made = make()
            if known.run(inputs, made):
                return made
        kernel, grid, rest = self._prepare(inputs, params)
        made = make()
        tensors = views(inputs, made) if views else (*inputs, *made)
        kernel[grid](*tensors, *rest)
        found = None if key is None else _replay(kernel, grid, tensors, rest, inputs, made)
        if found is None:
            self._known.pop(key, None)
        else:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = found
        return made


def _layouts(inputs: Tensors, params: Any) -> Any:
    """What the launch depends on besides addresses; None where an input is not plain memory."""
    try:
        return (params, *[None if t is None else (t.dtype, t.shape, t.stride(), t.is_cpu) for t in inputs])
    except (RuntimeError, AttributeError):  # sparse tensors have no strides
        return None


class _Replay:
    """One native launch that needs nothing but addresses."""

    __slots__ = ("args", "call", "grid", "reach", "rest")

    def __init__(self, call: Callable[..., object], grid: Any, rest: Tensors, reach: tuple[int, ...], args: tuple[Part | None, ...]) -> None:
        self.call, self.grid, self.rest, self.reach, self.args = call, grid, rest, reach, args

    def run(self, inputs: Tensors, outputs: Tensors) -> bool:
        """Launch, if every input has the memory that its shape needs."""
        at: list[int] = []
        try:
            for t, nbytes in zip(inputs, self.reach, strict=True):
                if t is None:
                    at.append(0)
                    continue
                address = t.data_ptr()
                # A storage may have shrunk since the tensor was made.
                if not address or t.is_neg() or t.storage_offset() * t.itemsize + nbytes > t.untyped_storage().nbytes():
                    return False
                at.append(address)
            for t in outputs:  # new memory
                at.append(0 if t is None else t.data_ptr())
        except RuntimeError:  # a tensor without memory of its own
            return False
        raw = [None if part is None else (at[part[0]] + part[1], *part[2]) for part in self.args]
        return self.call((*raw, *self.rest), _NO_NAMES, self.grid, True) is None


def _replay(kernel: Kernel, grid: Any, tensors: Tensors, rest: Tensors, inputs: Tensors, outputs: Tensors) -> _Replay | None:
    """How to repeat a launch that has just happened, if its kernel has a native launcher by now."""
    args = (*tensors, *rest)
    learner = kernel._compile(kernel._bind(args, {}))._learners.get("cpu")
    native = learner.native if learner else None
    if native is None:
        return None
    reading = interpret(native.plan, args, {}, grid)
    if reading is None:
        return None
    parts = [_part(param, t, reading, (*inputs, *outputs)) for param, t in zip(native.plan.params, tensors, strict=False)]
    if any(part is None and t is not None for part, t in zip(parts, tensors, strict=True)):
        return None
    reach = tuple(0 if t is None else _nbytes(t) for t in inputs)
    return _Replay(native.call, grid, rest, reach, tuple(parts))


def _part(param: Param, tensor: Any, reading: Reading, owners: Tensors) -> Part | None:
    """Where a tensor lies in one of the owners."""
    if tensor is None:
        return None
    count = reading.words[param.slot].size
    for i, owner in enumerate(owners):
        if owner is not None and owner.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
            offset = tensor.data_ptr() - owner.data_ptr()
            if offset >= 0 and offset + count * tensor.itemsize <= _nbytes(owner):
                return i, offset, (count, *(reading.words[a.slot].bits for a in param.asked))
    return None


def _nbytes(tensor: Any) -> int:
    """Bytes from the first element to the last."""
    steps = (step * (size - 1) for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.itemsize * (1 + sum(steps))) if tensor.numel() else 0
