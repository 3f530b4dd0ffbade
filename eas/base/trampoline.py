"""Recursive definitions over chains of any length: the calls that wait are on a list, not on Python's stack.

A definition is a generator. It yields the key of an answer that it needs, is sent that answer, and returns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, MutableMapping
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

Definition = Generator[Key, Answer, Answer]


def evaluate(define: Callable[[Key], Definition[Key, Answer]], key: Key, known: MutableMapping[Key, Answer] | None = None) -> Answer:
    """The answer for a key. Each key is defined once; answers in `known` are taken, and new ones added to it."""
    answers: MutableMapping[Key, Answer] = {} if known is None else known
    if key in answers:
        return answers[key]
    waiting = [(key, define(key))]
    sent: Any = None  # a generator starts with None
    while waiting:
        asking, definition = waiting[-1]
        try:
            asked = definition.send(sent)
        except StopIteration as done:
            sent = answers[asking] = done.value
            waiting.pop()
            continue
        if asked in answers:
            sent = answers[asked]
        else:
            waiting.append((asked, define(asked)))
            sent = None
    return answers[key]


def every(keys: Iterable[Key]) -> Generator[Key, Answer, list[Answer]]:
    """The answers for all keys, in order: `yield from every(keys)`."""
    found = []
    for key in keys:
        found.append((yield key))
    return found


def reached(starts: Iterable[Key], behind: Callable[[Key], Iterable[Key]]) -> Iterator[Key]:
    """The keys that are reached from the starts by way of `behind`, each once, depth first."""
    seen: set[Key] = set()
    left = list(starts)[::-1]
    while left:
        key = left.pop()
        if key not in seen:
            seen.add(key)
            yield key
            left.extend(reversed(list(behind(key))))


__all__ = ["Definition", "evaluate", "every", "reached"]
