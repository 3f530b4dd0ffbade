"""Tables of a lowering that forget at the end of a region what was learnt in it: the region may never run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ABSENT: Any = object()


class ScopedTable(dict[K, V]):
    """A dictionary; when a scope of it ends, it is again what it was when the scope began."""

    def __init__(self) -> None:
        super().__init__()
        self._undo: list[list[tuple[K, V]]] = []  # per open scope: what its changes replaced

    def _note(self, key: K) -> None:
        if self._undo:
            self._undo[-1].append((key, self.get(key, _ABSENT)))

    def __setitem__(self, key: K, value: V) -> None:
        self._note(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self._note(key)
        super().__delitem__(key)

    def pop(self, key: K) -> V:  # type: ignore[override]  # no caller has a default
        self._note(key)
        return super().pop(key)

    def update(self, other: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:  # type: ignore[override]  # no keywords
        for key, value in dict(other).items():
            self[key] = value

    def _refuse(self, *args: object) -> Any:
        raise TypeError("a change that no scope would undo")

    clear = popitem = setdefault = __ior__ = _refuse

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Changes until the end of the block are undone there."""
        self._undo.append([])
        try:
            yield
        finally:
            for key, value in reversed(self._undo.pop()):
                if value is _ABSENT:
                    super().pop(key, None)
                else:
                    super().__setitem__(key, value)


class Scopes:
    """All tables of one lowering, which enter and leave regions together."""

    def __init__(self) -> None:
        self._tables: list[ScopedTable[Any, Any]] = []

    def table(self) -> ScopedTable[Any, Any]:
        """A new table that forgets with the others."""
        made: ScopedTable[Any, Any] = ScopedTable()
        self._tables.append(made)
        return made

    @contextmanager
    def region(self) -> Iterator[None]:
        """The lowering of a region: nothing that is learnt in it is known behind it."""
        with ExitStack() as stack:
            for table in self._tables:
                stack.enter_context(table.scope())
            yield
