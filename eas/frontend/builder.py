"""Collects the instructions of one trace: open regions, who may be used where, source places."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from eas.base.errors import EscapedValue, ModeMismatch, OutsideKernel
from eas.base.types import Type
from eas.frontend.active import CURRENT
from eas.frontend.active import is_tracing as is_tracing  # part of what a builder tells
from eas.frontend.our_frames import is_body_of, is_internal
from eas.frontend.thread_axes import with_axes
from eas.ir import (
    Arg,
    AttrItems,
    Inst,
    IRModule,
    LaunchMode,
    Loc,
    Region,
    Value,
    make,
    sorted_attrs,
)

TRIAL = "trial"  # a scope that becomes part of the enclosing one, or is thrown away


class Scope:
    """An open region: its parameters and the instructions so far."""

    __slots__ = ("body", "kind", "loc", "params")

    def __init__(self, kind: str, loc: Loc | None, params: tuple[Value, ...] = ()) -> None:
        self.kind = kind
        self.loc = loc
        self.params = params
        self.body: list[Inst] = []


class NeedsTraceTime(Exception):
    """A loop has to be unrolled: its body asks for the Python number behind a counter, or does something each time."""


class Builder:
    """The state of one trace. Values remember their scope, so that an escaping one is caught."""

    def __init__(self, name: str, math: str = "safe") -> None:
        self.name = name
        self.math = math
        self.args: list[Arg] = []
        self.mode: LaunchMode | None = None
        self.mode_loc: Loc | None = None
        self.mode_word = ""
        self.threads = 0
        self.threads_along: dict[int, int] = {}  # by axis
        self.has_private = False  # memory that was made for as many threads
        self.not_rewritten: dict[CodeType, str] = {}  # why the control flow of a function is Python's own
        self.helper: Callable[[Any], Callable[..., Any]] = lambda fn: fn  # what to call instead of a function of the user
        self.on_helper: Callable[[Any], None] = lambda fn: None
        self.made: set[Callable[..., Any]] = set()  # functions that the kernel and its helpers have defined in this trace
        self.quiet = 0  # > 0 while a loop body is traced again
        self.on_trial = 0  # > 0 while a body that may be unrolled is traced as that of a loop
        self.shown: set[str] = set()  # descriptions of traced values that became part of a text
        self.changes: dict[int, Loc | None] = {}  # id of a list, dict or set -> where a method of it was called
        self._top = Scope("kernel", None)
        self._stack: list[Scope] = [self._top]
        self._home: dict[Value, Scope] = {}
        self._stop: FrameType | None = None

    # --- values and instructions ------------------------------------------------------------

    def add_arg(self, name: str, type: Type, attrs: AttrItems = ()) -> Value:
        value = Value(type, name)
        self.args.append(Arg(name, value, attrs))
        self._home[value] = self._top
        return value

    def emit(self, name: str, operands: Sequence[Value] = (), attrs: dict[str, Any] | None = None, regions: Sequence[Region] = ()) -> Inst:
        """Append an instruction at the current place of the user's source."""
        loc = self.here()
        for operand in operands:
            if self._home.get(operand) not in self._stack:
                self._refuse_escaped(operand, loc)
        return self.append(make(name, operands, attrs, regions, loc))

    def append(self, inst: Inst) -> Inst:
        """Make an instruction the last one of the open scope."""
        scope = self._stack[-1]
        scope.body.append(inst)
        for out in inst.outs:
            self._home[out] = scope
        return inst

    def _refuse_escaped(self, value: Value, loc: Loc | None) -> None:
        home = self._home.get(value)
        what = f"`{value.hint}`" if value.hint else "a value"
        if home is None:
            raise EscapedValue(f"{what} belongs to an earlier trace of a kernel", hint="keep traced values in local variables, not in globals or lists that outlive the kernel", loc=loc)
        raise EscapedValue(f"{what} was made inside the {home.kind} at {home.loc} and does not exist outside of it", hint="assign it to a variable that has a value before the " + home.kind, loc=loc)

    # --- regions ----------------------------------------------------------------------------

    @contextmanager
    def scope(self, kind: str, types: Sequence[Type] = (), hints: Sequence[str] = ()) -> Iterator[Scope]:
        """A new open region; nothing reaches the enclosing one until it is closed and used."""
        params = tuple(Value(t, hints[i] if i < len(hints) else "") for i, t in enumerate(types))
        scope = Scope(kind, self.here(), params)
        for p in params:
            self._home[p] = scope
        with self.inside(scope):
            yield scope

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[Scope]:
        """Go on adding to a scope."""
        self._stack.append(scope)
        try:
            yield scope
        finally:
            self._stack.pop()

    def close(self, scope: Scope, yields: Sequence[Value]) -> Region:
        """End a scope with its yield."""
        with self.inside(scope):
            self.emit("yield", yields)
        return Region(scope.params, tuple(scope.body))

    def commit(self, scope: Scope) -> None:
        """Make a parameterless scope part of the enclosing one, as if it had never been opened."""
        outer = self._stack[-1]
        outer.body += scope.body
        for inst in scope.body:
            for out in inst.outs:
                self._home[out] = outer

    @property
    def depth(self) -> int:
        """How many runtime regions are open around the current place."""
        return sum(scope.kind != TRIAL for scope in self._stack) - 1

    def note_change(self, container: object) -> None:
        """A method that may change a container is about to be called here."""
        self.need_each_time("a method of a container")
        if self.depth:
            self.changes[id(container)] = self.here()

    def need_each_time(self, what: str) -> None:
        """Python does something here in each iteration: a loop on trial is none."""
        if self.on_trial:
            raise NeedsTraceTime(what)

    @contextmanager
    def retracing(self) -> Iterator[None]:
        """What is traced once more does not print again."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    # --- modes and places -------------------------------------------------------------------

    def need_mode(self, mode: LaunchMode, word: str) -> None:
        """`word` belongs to one launch mode; using both is an error that shows both lines."""
        if self.mode is None:
            self.mode, self.mode_loc, self.mode_word = mode, self.here(), word
        elif self.mode != mode:
            first = f"{self.mode_word} at {self.mode_loc}"
            raise ModeMismatch(f"{word} cannot be used in a kernel that uses {first}: one is for {mode} kernels, the other for {self.mode} kernels", hint="use mk.arange for block (spmd) kernels, mk.tid for thread kernels, never both", loc=self.here())

    def here(self) -> Loc | None:
        """The user's frames that led to this point, innermost first."""
        return _place(sys._getframe(1), self._stop)

    def finish(self) -> IRModule:
        """Close the kernel body."""
        self._top.body.append(make("yield"))
        mode: LaunchMode = self.mode or "spmd"
        attrs: dict[str, Any] = {"threads": self.threads} if mode == "thread" else {}
        body = Region((), tuple(self._top.body))
        if self.threads_along.keys() - {0}:
            extents = (self.threads_along.get(0, 1), self.threads_along.get(1, 1), self.threads_along.get(2, 1))
            body, attrs["tptg"] = with_axes(body, extents), extents
        if self.math != "safe":
            attrs["math"] = self.math
        items: AttrItems = sorted_attrs(attrs)
        return IRModule(self.name, tuple(self.args), body, mode, items)

    @contextmanager
    def active(self) -> Iterator[Builder]:
        """Make this the builder that `mk` functions talk to, on this thread."""
        previous, self._stop = getattr(CURRENT, "builder", None), sys._getframe(2)
        CURRENT.builder = self
        try:
            yield self
        finally:
            CURRENT.builder = previous
            self._stop = None  # that frame knows this builder: a cycle, which would keep all that its callers know


def _place(frame: FrameType | None, stop: FrameType | None) -> Loc | None:
    frames: list[tuple[CodeType, int]] = []
    inner: CodeType | None = None
    while frame is not None and frame is not stop:
        code = frame.f_code
        if not is_internal(code.co_filename):
            if inner is None or not is_body_of(inner, code):
                frames.append((code, frame.f_lasti))
            inner = code
        frame = frame.f_back
    return Loc(tuple(frames)) if frames else None


def current(word: str = "mk functions") -> Builder:
    """The builder of the trace in progress; outside of a kernel this is the user's error."""
    builder: Builder | None = getattr(CURRENT, "builder", None)
    if builder is None:
        place = _place(sys._getframe(1), None)
        where = None if place is None else Loc(place.frames[:1])
        raise OutsideKernel(f"{word} can only be used inside a kernel", hint="decorate the function with @eas.kernel and call it", loc=where)
    return builder


def hiding_our_frames(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with a traceback that starts at its caller when it is used outside of a kernel."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return fn(*args, **kwargs)
        except OutsideKernel as error:
            error.__traceback__ = None  # every frame below this one is ours, and so is this one
            raise

    call.__module__ = "eas.mk"  # where pickle finds it
    return call
