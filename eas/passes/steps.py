"""The one loop that runs a schedule's steps: verified, timed, shown, left out or ended by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from eas.base import config
from eas.base.errors import EasError, InvalidIR, InvalidSetting
from eas.ir import IRModule, verify, walk

R = TypeVar("R")
When = Callable[[IRModule, R], bool]


@dataclass(frozen=True)
class Step(Generic[R]):
    """A function from module to module; `R` is the record that the steps of one schedule share."""

    name: str
    run: Callable[[IRModule, R], IRModule]
    when: When[R] | None = None
    """Whether it has anything to do here at all; None: always."""
    is_optional: bool = True
    """Whether results are the same without it, and only slower."""

    @property
    def doc(self) -> str:
        """The first line of what it says of itself."""
        return (self.run.__doc__ or "").strip().split("\n")[0]


def plain(run: Callable[..., IRModule], name: str = "", when: When[R] | None = None, is_optional: bool = True, given: Callable[[IRModule, R], tuple[Any, ...]] | None = None) -> Step[R]:
    """A step that is a function of the module, and of what is `given` to it of the record."""

    def step(module: IRModule, record: R) -> IRModule:
        return run(module, *(given(module, record) if given else ()))

    step.__doc__ = run.__doc__
    return Step(name or run.__name__, step, when, is_optional)


@dataclass(frozen=True)
class Seen:
    """A step that ran: what it left, and how long it took."""

    name: str
    module: IRModule
    changed: bool
    seconds: float = 0.0


class Steps(tuple[Seen, ...]):
    """What every step of a compilation left, in order; printed as a table."""

    def after(self, name: str) -> IRModule:
        """The module after the last step of that name."""
        for seen in reversed(self):
            if seen.name == name:
                return seen.module
        raise unknown_step(name, (seen.name for seen in self))

    def __str__(self) -> str:
        width = max((len(seen.name) for seen in self), default=0)
        rows = (f"{seen.name:{width}}  {'changed' if seen.changed else '-':7}  {sum(1 for _ in walk(seen.module.body)):6} insts  {seen.seconds * 1e3:8.2f} ms" for seen in self)
        return "\n".join(rows)


Observer = Callable[[Seen], None]
_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Within the block `observer` hears of each step of every schedule that runs on this thread."""
    before = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(before)


def run_steps(steps: Sequence[Step[R]], module: IRModule, record: R, *, until: str | None = None) -> IRModule:
    """The module after all steps, or after the one named `until`.

    Steps in `EAS_WITHOUT` are left out; `EAS_VERIFY=1` verifies what each step has changed.
    """
    left_out, must_verify, observer = without(steps), config.verify() > 0, _observer.get()
    if until is not None:
        check_name(steps, until)
    for step in steps:
        if step.name not in left_out and (step.when is None or step.when(module, record)):
            start = time.perf_counter()
            before, module = module, step.run(module, record)
            if module is not before and must_verify:
                verify_after(step.name, module)
            if observer is not None:
                seconds = time.perf_counter() - start
                observer(Seen(step.name, module, module is not before and str(module) != str(before), seconds))
        if step.name == until:
            break
    return module


def without(steps: Sequence[Step[R]]) -> frozenset[str]:
    """The steps of this schedule that `EAS_WITHOUT` names; those of other schedules are theirs."""
    asked = config.without()
    if not asked:
        return frozenset()
    for step in steps:
        if step.name in asked and not step.is_optional:
            raise InvalidSetting(f"EAS_WITHOUT={step.name} leaves out a step that results depend on", hint="docs/architecture.md lists the steps; those with a star are needed")
    return frozenset(asked)


def check_name(steps: Iterable[Step[Any]], name: str, where: str = " here") -> None:
    """Raise for a name that no step has."""
    known = [step.name for step in steps]
    if name not in known:
        raise unknown_step(name, known, where)


def unknown_step(name: str, known: Iterable[str], where: str = " here") -> InvalidSetting:
    """The refusal of a misspelt name."""
    known = list(dict.fromkeys(known))
    near = config.closest(name, known)
    return InvalidSetting(f"there is no step {name!r}{where}", hint=f"did you mean {near!r}?" if near else f"the steps are {', '.join(known)}")


def verify_after(name: str, module: IRModule) -> None:
    """Raise `InvalidIR`, with the step's name, for a module that is not well formed."""
    try:
        verify(module)
    except EasError as error:
        raise InvalidIR(f"after {name}: {error.message}", hint=error.hint, loc=error.loc) from error
