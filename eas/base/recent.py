"""A dict of what was used last: of more entries than it may have, those go that were not asked for longest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_clock = itertools.count()


class _Entry(Generic[V]):
    __slots__ = ("used", "value")

    def __init__(self, value: V) -> None:
        self.value = value
        self.used = next(_clock)


class Recent(Generic[K, V]):
    """Threads may ask at the same time; whoever adds holds a lock of his own."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[K, _Entry[V]] = {}

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used now."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = next(_clock)
        return entry.value

    def add(self, key: K, value: V, limit: int, is_needed: Callable[[V], bool] = lambda _: False) -> list[V]:
        """What had to go so that no more than `limit` entries remain, less those that are needed."""
        self._entries[key] = _Entry(value)
        gone: list[V] = []
        if len(self._entries) > limit:
            for old, entry in sorted(self._entries.items(), key=lambda item: item[1].used):
                if len(self._entries) <= limit or old == key:
                    break
                if not is_needed(entry.value):
                    gone.append(self._entries.pop(old).value)
        return gone

    def values(self) -> Iterator[V]:
        return (entry.value for entry in list(self._entries.values()))

    def items(self) -> Iterator[tuple[K, V]]:
        return ((key, entry.value) for key, entry in list(self._entries.items()))

    def clear(self) -> None:
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
