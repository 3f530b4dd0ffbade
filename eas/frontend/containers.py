"""Lists, dicts and objects that a runtime loop or branch changes in place: their elements are carried as variables are.

A body is traced as if nothing changed. Where a container then holds something else, it gets back what it held, and
the body is traced once more with the elements of that container as part of the state: they are put into the container
itself before the body runs, and so are the results afterwards, so every other name of it sees them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

from eas.base.errors import EscapedValue
from eas.frontend.builder import current
from eas.frontend.state import NOT_THE_USERS, is_same

_DEPTH = 3
State = tuple[Any, ...]
Body = Callable[..., State]


class ChangedInPlace(Exception):
    """A body changed containers that keep their size: they can be carried."""

    def __init__(self, what: str, containers: list[tuple[str, Any]]) -> None:
        super().__init__(what)
        self.containers = containers


def carrying(run: Callable[..., State], bodies: Sequence[Body | None], names: Sequence[str], state: State) -> State:
    """run(*bodies, names, state), in which what the bodies change in place is state as well."""
    cells: list[_Cell] = []
    tops: list[tuple[str, Any]] = []
    while True:
        try:
            left = run(*(_WithCells(body, cells, tops) if cells and body is not None else body for body in bodies), (*names, *(c.name for c in cells)), (*state, *(c.value for c in cells)))
        except ChangedInPlace as change:
            tops += change.containers
            known = {cell.place for cell in cells}
            for name, container in change.containers:  # another name of the same list adds nothing
                cells += [cell for cell in _cells(name, container) if cell.place not in known]
                known |= {cell.place for cell in cells}
            continue
        _put(cells, left[len(state) :])
        return left[: len(state)]


class _WithCells:
    """A body, or the test of a loop, whose last arguments are elements of containers."""

    def __init__(self, body: Body, cells: list[_Cell], tops: list[tuple[str, Any]]) -> None:
        self.func, self.cells, self.tops = body, cells, tops
        self.containers = {id(top) for _, top in tops} | {id(cell.container) for cell in cells}
        self.skeletons = [_skeleton(top) for _, top in tops]

    def __call__(self, *args: Any) -> Any:
        count = len(self.cells)
        before = [(top, _picture(top)) for _, top in self.tops]
        _put(self.cells, args[-count:])
        try:
            result = self.func(*args[:-count])
            for (name, top), skeleton in zip(self.tops, self.skeletons, strict=True):
                if _skeleton(top) != skeleton:
                    _refuse(name, top, "loop or branch")
            return (*result, *(cell.value for cell in self.cells)) if isinstance(result, tuple) else result
        finally:
            for top, picture in before:
                _restore(top, picture)


class _Cell:
    """One element of a container, whose value can be set."""

    __slots__ = ("container", "key", "name")

    def __init__(self, container: Any, key: Any, name: str) -> None:
        self.container, self.key, self.name = container, key, name

    @property
    def place(self) -> tuple[int, Any]:
        return id(self.container), self.key

    @property
    def value(self) -> Any:
        return _table(self.container)[self.key]

    def put(self, value: Any) -> None:
        if self.value is value:
            return
        if isinstance(self.container, (list, dict)):
            self.container[self.key] = value
        else:
            object.__setattr__(self.container, self.key, value)  # frozen ones are set by nobody else


def _put(cells: Sequence[_Cell], values: Sequence[Any]) -> None:
    for cell, value in zip(cells, values, strict=True):
        cell.put(value)


def _cells(name: str, container: Any, depth: int = _DEPTH) -> list[_Cell]:
    found = []
    for key, value in _table(container).items():
        word = f"{name}_{key}"
        if depth > 1 and _is_container(value) and not isinstance(value, set):
            found += _cells(word, value, depth - 1)
        else:
            found.append(_Cell(container, key, word))
    return found


# --- what has changed -----------------------------------------------------------------------------


@contextmanager
def unchanged(what: str, body: Callable[..., Any] | None) -> Iterator[None]:
    """What `body` sees of its enclosing function and does not carry must hold the same things afterwards, or `ChangedInPlace`."""
    carried = _carried_by(body)
    before = [(name, value, _picture(value)) for name, value in _closure(body) if _is_container(value) and id(value) not in carried]
    try:
        yield
    except BaseException:
        for _, value, picture in before:
            _restore(value, picture)
        raise
    changed = [(name, value, picture) for name, value, picture in before if not _holds(picture, value)]
    sizes = [(name, value) for name, value, picture in changed if not _has_size(picture, value)]
    for _, value, picture in changed:
        _restore(value, picture)
    if sizes:
        _refuse(*sizes[0], what)
    if changed:
        raise ChangedInPlace(what, [(name, value) for name, value, _ in {id(v): (n, v, p) for n, v, p in changed}.values()])


def _refuse(name: str, value: Any, what: str) -> NoReturn:
    builder = current()
    raise EscapedValue(f"the {type(value).__name__} `{name}` changes its size inside a runtime {what}, or which lists and objects it holds", hint="make all elements before it, and assign to them: `values[0] = x` and `state.total += x` are carried", loc=builder.changes.get(id(value)) or builder.here())


def _skeleton(x: Any, depth: int = _DEPTH) -> Any:
    """What must stay: the keys of a container, and the containers in it."""
    if depth == 0 or not _is_container(x):
        return None
    if isinstance(x, set):
        return id(x)
    return id(x), [(key, _skeleton(value, depth - 1)) for key, value in _table(x).items()]


def _carried_by(body: Any) -> set[int]:
    """The containers whose elements are part of a body's state."""
    found: set[int] = set()
    while body is not None:
        found |= getattr(body, "containers", set())
        body = getattr(body, "func", None)
    return found


def _closure(body: Any) -> list[tuple[str, Any]]:
    """The variables of the enclosing function that a body made by the rewrite uses."""
    while (inner := getattr(body, "func", None)) is not None:  # a partial, or one of our own that stand for a body
        body = inner
    code = getattr(body, "__code__", None)
    cells = zip(code.co_freevars, getattr(body, "__closure__", None) or (), strict=True) if code else ()
    found = []
    for name, cell in cells:
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not assigned yet
            continue
    return found


def _is_container(x: Any) -> bool:
    return isinstance(x, (list, dict, set)) or _attributes(x) is not None


def _attributes(x: Any) -> dict[str, Any] | None:
    """The attributes of a plain object; modules, classes and functions have more than data."""
    if type(x).__module__.partition(".")[0] in NOT_THE_USERS or callable(x):
        return None
    own = getattr(x, "__dict__", None)
    if own is None and is_dataclass(x):  # with slots
        return {f.name: getattr(x, f.name) for f in fields(x) if hasattr(x, f.name)}
    return own if isinstance(own, dict) else None


def _table(x: Any) -> Any:
    """What a container holds, by index, key or attribute."""
    return dict(enumerate(x)) if isinstance(x, list) else x if isinstance(x, dict) else _attributes(x) or {}


def _picture(x: Any, depth: int = _DEPTH) -> Any:
    """A copy to compare with later, down to things that cannot change in place."""
    if depth == 0:
        return x
    if isinstance(x, (list, tuple)):
        return [(v, _picture(v, depth - 1)) for v in x]
    if isinstance(x, set):
        return frozenset(map(id, x)), list(x)
    table = x if isinstance(x, dict) else _attributes(x)
    return x if table is None else {k: (v, _picture(v, depth - 1)) for k, v in table.items()}


def _holds(picture: Any, x: Any, depth: int = _DEPTH) -> bool:
    """Whether x is as it was. New keys and attributes are no change: caches add them, and nobody saw them before."""
    if depth == 0:
        return is_same(picture, x)
    if isinstance(x, (list, tuple)):
        return isinstance(picture, list) and len(picture) == len(x) and all(_holds(p, v, depth - 1) for (_, p), v in zip(picture, x, strict=True))
    if isinstance(x, set):
        return isinstance(picture, tuple) and frozenset(map(id, x)) == picture[0]
    table = x if isinstance(x, dict) else _attributes(x)
    if table is None:
        return is_same(picture, x)
    return isinstance(picture, dict) and all(k in table and _holds(p, table[k], depth - 1) for k, (_, p) in picture.items())


def _has_size(picture: Any, x: Any, depth: int = _DEPTH) -> bool:
    """Whether a container has the elements that it had, whatever they are now."""
    if depth == 0 or not _is_container(x):
        return True
    if isinstance(x, set) or not isinstance(picture, (list, dict)):
        return _holds(picture, x, depth)
    kept = dict(enumerate(picture)) if isinstance(picture, list) else picture
    now = _table(x)
    if (isinstance(x, list) and len(kept) != len(now)) or not kept.keys() <= now.keys():
        return False
    return all(_has_size(p, now[k], depth - 1) for k, (_, p) in kept.items())


def _restore(x: Any, picture: Any, depth: int = _DEPTH) -> None:
    """Put back what a container held."""
    if depth == 0 or not _is_container(x):
        return
    if isinstance(x, set):
        x.clear()
        x.update(picture[1])
        return
    kept = dict(enumerate(picture)) if isinstance(picture, list) else picture
    for value, inner in kept.values():
        _restore(value, inner, depth - 1)
    if isinstance(x, list):
        x[:] = [value for value, _ in kept.values()]
        return
    for key, (value, _) in kept.items():
        _Cell(x, key, "").put(value) if key in _table(x) else _set(x, key, value)


def _set(x: Any, key: Any, value: Any) -> None:
    if isinstance(x, dict):
        x[key] = value
    else:
        object.__setattr__(x, key, value)
