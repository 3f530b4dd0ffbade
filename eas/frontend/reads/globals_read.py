"""Records what a kernel and its helpers read from outside, so that an edit makes a kernel stale.

What code reads at trace time is found by names: each name that some function mentions is looked up in each
module, class and object that functions can reach. That is more than is read, and never less, but for names
that are computed and for what functions of C and of libraries read.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from eas.base.dtypes import DType
from eas.frontend.reads.code_names import global_names, imported_names, names_of
from eas.frontend.reads.frozen import MISSING, Frozen, changes_in_place, freeze, is_plain, parts_of

# Libraries whose classes have no attributes that kernels depend on; of their modules each attribute counts.
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"builtins", "eas", "numpy", "torch"}
_ATTRIBUTE_DEPTH = 12
_HOOKS = "__eas__"
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__del__", "__reduce__", "__set_name__"})
"""Methods that no use of a finished object runs."""

_builtins_of = operator.attrgetter("__builtins__")  # of a function; some versions of the stubs lack it

Table = Mapping[str, object]


class Identities(NamedTuple):
    """Dependencies by identity: items of dicts, contents of closure cells, code of functions."""

    items: list[tuple[dict[str, object], str, object]]
    """The value is MISSING where there is no such key."""
    cells: list[tuple[CellType, object]]
    functions: list[tuple[FunctionType, CodeType]]


class Read(NamedTuple):
    """One value that functions may read."""

    owner: str
    name: str
    value: object
    """As it is now; MISSING if there is none."""


class Dependencies:
    """The values that functions read from globals, closures, defaults, and attributes of these."""

    def __init__(self) -> None:
        self._names: list[tuple[Table, str, object, Frozen]] = []
        self._eas_modules: list[tuple[Table, str]] = []  # nobody edits these between two launches
        self._cells: list[tuple[CellType, object, Frozen, str]] = []
        self._functions: list[tuple[FunctionType, CodeType, object, object, Frozen]] = []
        self._seen: set[tuple[int, str]] = set()
        self._known_functions: set[FunctionType] = set()
        self._attributes: dict[str, None] = {}  # that some function mentions
        self._holders: dict[int, tuple[object, list[Table], int]] = {}

    @classmethod
    def of(cls, fn: Callable[..., object]) -> Dependencies:
        """What this one function reads."""
        made = cls()
        made.add(fn)
        return made

    def add(self, fn: Callable[..., object], is_made_here: bool = False) -> None:
        """Record also what this function reads now; callables not written in Python read nothing.

        A function that the kernel itself has defined is made anew by each trace, from variables of the trace: of it
        only what it names outside counts.
        """
        if is_made_here and isinstance(fn, FunctionType):
            self._add_names(fn, _ATTRIBUTE_DEPTH)
        else:
            self._add_function(fn, _ATTRIBUTE_DEPTH)

    def add_value(self, value: object) -> None:
        """Record the attributes of a value that functions are given."""
        self._add_holder(value, _ATTRIBUTE_DEPTH)

    def _add_function(self, fn: Callable[..., object], depth: int) -> None:
        if isinstance(fn, MethodType):
            self._add_holder(fn.__self__, depth)
            fn = fn.__func__
        if not isinstance(fn, FunctionType) or fn in self._known_functions:
            return
        self._known_functions.add(fn)
        frozen = freeze((fn.__defaults__, fn.__kwdefaults__))
        defaults, kwdefaults = map(_unless_changing, (fn.__defaults__, fn.__kwdefaults__))
        self._functions.append((fn, fn.__code__, defaults, kwdefaults, frozen))
        self._add_names(fn, depth)
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            if name != _HOOKS:
                self._add_cell(name, cell, depth)
        self._add_holder((fn.__defaults__, fn.__kwdefaults__), depth)

    def _add_names(self, fn: FunctionType, depth: int) -> None:
        """Record the globals, attributes and modules that a function names."""
        self._add_attributes(names_of(fn.__code__), depth)
        for name in dict.fromkeys(global_names(fn.__code__)):
            self._add_name(fn.__globals__, name, depth)
            if name not in fn.__globals__:
                self._add_name(_builtins_of(fn), name, depth)
        for name in imported_names(fn.__code__):
            self._add_import(fn, name, depth)

    def reads(self) -> Iterator[Read]:
        """Every name and closure cell, with what it means now; what is added meanwhile comes too."""
        done = [0, 0, 0]
        lists: tuple[list[Any], ...] = (self._names, self._eas_modules, self._cells)
        while True:
            which = next((i for i in range(3) if done[i] < len(lists[i])), None)
            if which is None:
                return
            entry = lists[which][done[which]]
            done[which] += 1
            if which == 2:
                yield Read("", "cell", contents(entry[0]))
            else:
                table, name = entry[:2]
                yield Read(str(table.get("__name__", "")), name, table.get(name, MISSING))

    def identities(self) -> Identities | None:
        """What must stay the same objects for everything to be current, or None if identity cannot tell."""
        found = Identities([], [], [])
        for table, name, value, frozen in self._names:
            now = table.get(name, MISSING)
            if type(table) is not dict or value is _CHANGES or (now is not value and freeze(now) != frozen):
                return None
            found.items.append((table, name, now))
        for fn, code, defaults, kwdefaults, _ in self._functions:
            if fn.__code__ is not code or fn.__defaults__ is not defaults or fn.__kwdefaults__ is not kwdefaults:
                return None
            found.functions.append((fn, code))
        for cell, value, frozen, _ in self._cells:
            now = contents(cell)
            if value is _CHANGES or now is MISSING or (now is not value and freeze(now) != frozen):
                return None
            found.cells.append((cell, now))
        return found

    def includes(self, other: Dependencies) -> bool:
        """Whether everything that `other` recorded is recorded here too."""
        cells = {id(cell) for cell, *_ in self._cells}
        return (
            self._seen >= other._seen
            and self._known_functions >= other._known_functions
            and all(id(cell) in cells for cell, *_ in other._cells)
        )

    def is_current(self) -> bool:
        """Whether everything recorded still has the value it had."""
        return not self.change()

    def change(self) -> str:
        """What no longer has the value it had, in words; empty if all does."""
        # Identity answers at once; what can change in place never passes it and is compared.
        for table, name, value, frozen in self._names:
            now = table.get(name, MISSING)
            if now is not value and freeze(now) != frozen:
                owner = str(table.get("__name__", ""))
                return f"{owner}.{name}" if owner else f"`{name}` of an object"
        for fn, code, defaults, kwdefaults, frozen in self._functions:
            if fn.__code__ is not code:
                return f"the code of {fn.__qualname__}"
            if fn.__defaults__ is defaults and fn.__kwdefaults__ is kwdefaults:
                continue
            if freeze((fn.__defaults__, fn.__kwdefaults__)) != frozen:
                return f"a default of {fn.__qualname__}"
        for cell, value, frozen, name in self._cells:
            now = contents(cell)
            if now is not value and freeze(now) != frozen:
                return f"`{name}` of the function around the kernel or a helper"
        return ""

    @property
    def attributes(self) -> Iterable[str]:
        """The names that some function mentions."""
        return self._attributes

    # --- one read -----------------------------------------------------------------------------

    def _add_name(self, table: Table, name: str, depth: int, is_of_eas: bool = False) -> None:
        if (id(table), name) in self._seen:
            return
        self._seen.add((id(table), name))  # the entry below keeps the table, so the id stays its own
        value = table.get(name, MISSING)
        if is_of_eas and _belongs_to_eas(value):
            return
        if is_eas_module(value):
            self._eas_modules.append((table, name))
        else:
            self._names.append((table, name, _unless_changing(value), freeze(value)))
        self._add_holder(value, depth)

    def _add_cell(self, name: str, cell: CellType, depth: int) -> None:
        value = contents(cell)
        self._cells.append((cell, _unless_changing(value), freeze(value), name))
        self._add_holder(value, depth)

    def _add_import(self, fn: FunctionType, name: str, depth: int) -> None:
        """A module that the function imports when it runs: what import statements look at first."""
        package = fn.__globals__.get("__package__")
        full = f"{package}.{name}".rstrip(".") if package else name
        for found in dict.fromkeys((name, full)):
            parts = found.split(".")
            for end in range(1, len(parts) + 1):
                self._add_name(sys.modules, ".".join(parts[:end]), depth)

    def _add_attributes(self, names: Iterable[str], depth: int) -> None:
        """Look up more names in everything that was met."""
        fresh = [name for name in dict.fromkeys(names) if name not in self._attributes]
        self._attributes.update(dict.fromkeys(fresh))
        for holder, tables, left in list(self._holders.values()):
            self._look_up(holder, tables, fresh, min(left, depth))

    def _add_holder(self, value: object, depth: int) -> None:
        """Record what the code names of a module, class or object, and of what a container holds."""
        if depth == 0 or is_plain(value) or id(value) in self._holders:
            return
        tables = _attribute_tables(value)
        self._holders[id(value)] = (value, tables, depth - 1)
        for part in parts_of(value) or ():
            self._add_holder(part, depth - 1)
        self._look_up(value, tables, list(self._attributes), depth - 1)
        for method in _run_by_use(value):
            self._add_function(method, depth - 1)

    def _look_up(self, holder: object, tables: list[Table], names: list[str], depth: int) -> None:
        """Record those of the names that are attributes of a holder."""
        wanted = set(names)
        held = {name for table in tables for name in table.keys() & wanted}
        for name in names if held else ():
            if name not in held:
                continue
            found = next(i for i, table in enumerate(tables) if name in table)
            for table in tables[: found + 1]:  # an earlier one may come to hide it
                self._add_name(table, name, depth, is_eas_module(holder))
            value = tables[found].get(name)
            if isinstance(value, property) and value.fget is not None:
                self._add_function(value.fget, depth)


_CHANGES = object()  # stands for a value that may change in place: identical to nothing


def _unless_changing(value: object) -> object:
    return _CHANGES if changes_in_place(value) else value


def contents(cell: CellType) -> object:
    """What a closure cell holds, or MISSING."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class _Slots(Mapping[str, object]):
    """The values in the `__slots__` of an object."""

    def __init__(self, value: object, members: Mapping[str, MemberDescriptorType]) -> None:
        self._value = value
        self._members = members

    def __getitem__(self, name: str) -> object:
        try:
            found: object = self._members[name].__get__(self._value)
        except AttributeError:  # nobody has set it
            return MISSING
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _attribute_tables(value: object) -> list[Table]:
    """Where attributes of a value are looked up, in this order."""
    if isinstance(value, FunctionType) or type(value) is ModuleType:
        return [vars(value)]
    if isinstance(value, BuiltinFunctionType):
        return []
    kind = value if isinstance(value, type) else type(value)
    classes = [vars(c) for c in kind.__mro__ if not is_library_name(c.__module__)]
    slots = {name: member for table in classes for name, member in table.items() if isinstance(member, MemberDescriptorType)}
    # Also of a class that nobody edits an instance may be: types.SimpleNamespace.
    own = vars(value) if type(value).__dictoffset__ else None  # to ask for it might run `__getattr__`
    first: list[Table] = [own] if isinstance(own, dict) else []
    if slots and not isinstance(value, type):
        first.append(_Slots(value, slots))
    return [*first, *classes]


def _run_by_use(value: object) -> Iterator[Callable[..., object]]:
    """A function, and the methods that Python runs without naming them: operators, `__getitem__`, `__getattr__`."""
    if isinstance(value, functools._lru_cache_wrapper):
        yield from _run_by_use(value.__wrapped__)
    elif isinstance(value, FunctionType | MethodType):
        if not _is_installed(value.__module__):
            yield value
    elif isinstance(value, ModuleType):
        found = vars(value).get("__getattr__")
        if isinstance(found, FunctionType) and not _is_installed(value.__name__):
            yield found
    if not isinstance(value, FunctionType):
        for table in [vars(c) for c in type(value).__mro__ if not _is_installed(c.__module__)]:
            for name, method in table.items():
                if name[:2] == "__" == name[-2:] and name not in _MAKERS and isinstance(method, FunctionType):
                    yield method


def is_eas_module(value: object) -> bool:
    """Whether a value is a module of eas itself."""
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "eas"


def _belongs_to_eas(value: Any) -> bool:
    if isinstance(value, DType):
        return True
    return isinstance(value, FunctionType | type) and (value.__module__ or "").partition(".")[0] == "eas"


def is_library_name(module: object) -> bool:
    """Whether a module of this name is of a library."""
    return str(module).partition(".")[0] in _LIBRARIES


def _is_installed(module: object) -> bool:
    """Whether a module is of a library, and so too large to follow all that its objects may do."""
    root = str(module).partition(".")[0]
    if root in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
