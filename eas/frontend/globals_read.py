"""Records what a kernel and its helpers read from outside, so that an edit makes a kernel stale."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

# Modules whose contents nobody edits between two launches.
_TRUSTED = frozenset(sys.stdlib_module_names) | {"builtins", "eas", "numpy", "torch"}
_SNAPSHOT_DEPTH = 6
_ATTRIBUTE_DEPTH = 3
_HOOKS = "__eas__"

Frozen = object
Table = Mapping[str, object]


class Identities(NamedTuple):
    """Dependencies by identity: items of dicts, contents of closure cells, code of functions."""

    items: list[tuple[dict[str, object], str, object]]
    """The value is MISSING where there is no such key."""
    cells: list[tuple[CellType, object]]
    functions: list[tuple[FunctionType, CodeType]]


class Dependencies:
    """The values that functions read from globals, closures, defaults, and attributes of these."""

    def __init__(self) -> None:
        self._names: list[tuple[Table, str, object, Frozen]] = []
        self._cells: list[tuple[CellType, object, Frozen]] = []
        self._functions: list[tuple[FunctionType, CodeType, object, object, Frozen]] = []
        self._seen: set[tuple[int, str]] = set()

    @classmethod
    def of(cls, fn: Callable[..., object]) -> Dependencies:
        """What this one function reads."""
        made = cls()
        made.add(fn)
        return made

    def add(self, fn: Callable[..., object]) -> None:
        """Record also what this function reads now; callables not written in Python read nothing."""
        if isinstance(fn, MethodType):
            if isinstance(fn.__func__, FunctionType):
                self._add_attributes(fn.__self__, dict.fromkeys(names_of(fn.__func__.__code__)), _ATTRIBUTE_DEPTH)
            fn = fn.__func__
        if not isinstance(fn, FunctionType) or any(known is fn for known, *_ in self._functions):
            return
        frozen = _freeze((fn.__defaults__, fn.__kwdefaults__))
        defaults, kwdefaults = map(_unless_mutable, (fn.__defaults__, fn.__kwdefaults__))
        self._functions.append((fn, fn.__code__, defaults, kwdefaults, frozen))
        names = dict.fromkeys(names_of(fn.__code__))
        for name in names:
            if name in fn.__globals__:
                self._add_name(fn.__globals__, name, names, _ATTRIBUTE_DEPTH)
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            if name != _HOOKS:
                self._add_cell(cell, names)

    def reads(self) -> Iterator[tuple[str, object]]:
        """Every name and closure cell, with what it means now; what is added meanwhile comes too."""
        names = cells = 0
        while names < len(self._names) or cells < len(self._cells):
            if names < len(self._names):
                table, name, *_ = self._names[names]
                names += 1
                yield name, table.get(name, MISSING)
            else:
                cells += 1
                yield "cell", contents(self._cells[cells - 1][0])

    def identities(self) -> Identities | None:
        """What must stay the same objects for everything to be current, or None if identity cannot tell."""
        found = Identities([], [], [])
        for table, name, value, frozen in self._names:
            now = table.get(name, MISSING)
            if type(table) is not dict or value is _CHANGES or (now is not value and _freeze(now) != frozen):
                return None
            found.items.append((table, name, now))
        for fn, code, defaults, kwdefaults, _ in self._functions:
            if fn.__code__ is not code or fn.__defaults__ is not defaults or fn.__kwdefaults__ is not kwdefaults:
                return None
            found.functions.append((fn, code))
        for cell, value, frozen in self._cells:
            now = contents(cell)
            if value is _CHANGES or now is MISSING or (now is not value and _freeze(now) != frozen):
                return None
            found.cells.append((cell, now))
        return found

    def has_name(self, table: Table, name: str) -> bool:
        """Whether `table[name]` is recorded."""
        return (id(table), name) in self._seen

    def includes(self, other: Dependencies) -> bool:
        """Whether everything that `other` recorded is recorded here too."""
        functions = {id(fn) for fn, *_ in self._functions}
        cells = {id(cell) for cell, *_ in self._cells}
        return (
            self._seen >= other._seen
            and all(id(fn) in functions for fn, *_ in other._functions)
            and all(id(cell) in cells for cell, *_ in other._cells)
        )

    def is_current(self) -> bool:
        """Whether everything recorded still has the value it had."""
        # Identity answers at once; what can change in place never passes it and is compared.
        for table, name, value, frozen in self._names:
            now = table.get(name, MISSING)
            if now is not value and _freeze(now) != frozen:
                return False
        for fn, code, defaults, kwdefaults, frozen in self._functions:
            if fn.__code__ is not code:
                return False
            if fn.__defaults__ is defaults and fn.__kwdefaults__ is kwdefaults:
                continue
            if _freeze((fn.__defaults__, fn.__kwdefaults__)) != frozen:
                return False
        for cell, value, frozen in self._cells:
            now = contents(cell)
            if now is not value and _freeze(now) != frozen:
                return False
        return True

    def _add_name(self, table: Table, name: str, names: Mapping[str, None], depth: int) -> None:
        value = table.get(name, MISSING)
        if is_trusted_module(value) or (id(table), name) in self._seen:
            return
        self._seen.add(
            (id(table), name)
        )  # the entry below keeps the table, so the id stays its own
        self._names.append((table, name, _unless_mutable(value), _freeze(value)))
        self._add_attributes(value, names, depth)

    def _add_cell(self, cell: CellType, names: Mapping[str, None]) -> None:
        value = contents(cell)
        self._cells.append((cell, _unless_mutable(value), _freeze(value)))
        self._add_attributes(value, names, _ATTRIBUTE_DEPTH)

    def _add_attributes(self, value: object, names: Mapping[str, None], depth: int) -> None:
        """Record the attributes of a module, class or instance that the code names."""
        tables = _attribute_tables(value) if depth else []
        for name in names:
            holder = next((i for i, table in enumerate(tables) if name in table), None)
            if holder is None:
                continue
            for table in tables[: holder + 1]:  # an earlier one may come to hide it
                self._add_name(table, name, names, depth - 1)


class _Same:
    """Equal to itself only; holds the object, so that its id is not reused."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


MISSING = object()
_CHANGES = object()  # stands for a value that may change in place: identical to nothing


def _freeze(value: object, depth: int = _SNAPSHOT_DEPTH) -> Frozen:
    """A hashable picture of a value: plain data by type and content, anything else by identity."""
    kind = type(value)
    if kind in (int, str, bool, bytes):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)  # tells -0.0 from 0.0 and finds nan equal to nan
    if depth == 0:
        return _Same(value)
    if isinstance(value, tuple | list):
        return kind, tuple(_freeze(item, depth - 1) for item in value)
    if isinstance(value, set | frozenset):
        return kind, frozenset(_freeze(item, depth - 1) for item in value)
    if isinstance(value, dict):
        items = value.items()
        return kind, tuple((_freeze(k, depth - 1), _freeze(v, depth - 1)) for k, v in items)
    return _Same(value)


def _unless_mutable(value: object) -> object:
    return _CHANGES if _is_mutable(value, _SNAPSHOT_DEPTH) else value


def _is_mutable(value: object, depth: int) -> bool:
    if isinstance(value, list | dict | set):
        return True
    return depth > 0 and isinstance(value, tuple) and any(_is_mutable(v, depth - 1) for v in value)


def contents(cell: CellType) -> object:
    """What a closure cell holds, or MISSING."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def names_of(code: CodeType) -> Iterator[str]:
    """Global and attribute names of a code object and of the functions inside it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from names_of(const)


def _attribute_tables(value: object) -> list[Table]:
    if isinstance(value, FunctionType | BuiltinFunctionType) or is_trusted_module(value):
        return []
    if isinstance(value, ModuleType):
        return [vars(value)]
    kind = value if isinstance(value, type) else type(value)
    classes = [vars(c) for c in kind.__mro__ if not _is_trusted(c.__module__)]
    # Also of a class that nobody edits an instance may be: types.SimpleNamespace.
    own = getattr(value, "__dict__", None)
    return [own, *classes] if isinstance(own, dict) else list(classes)


def is_trusted_module(value: object) -> bool:
    """Whether a value is a module whose contents nobody edits between two launches."""
    return isinstance(value, ModuleType) and _is_trusted(value.__name__)


def _is_trusted(module: str) -> bool:
    return module.partition(".")[0] in _TRUSTED
